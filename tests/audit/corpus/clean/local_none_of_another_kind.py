# ruff: noqa
# place: srt/managers/example.py
def plan(forward_batch, wanted):
    room = None
    if wanted:
        room = [1]
    return room[0]
