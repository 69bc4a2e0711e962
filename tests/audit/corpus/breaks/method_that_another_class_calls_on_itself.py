# ruff: noqa
# place: srt/managers/example.py
class Careful:
    def run(self, batch):
        if batch.seq_lens_cpu is not None:
            self.plan(batch)

    def plan(self, batch):
        return batch.seq_lens_cpu.max()


class Careless:
    def plan(self, batch):
        return batch.seq_lens_cpu.max()  # finds PK101
