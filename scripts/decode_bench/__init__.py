"""The parts of ``bench_decode.py``: scenarios, engines in processes of their own, what is read off them."""
