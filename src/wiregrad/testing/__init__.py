"""Checks that follow from op records and samples, random circuits and programs, and benchmarks.

Start with `opcheck`, which checks an elementwise op by its record; `arraycheck` and `functioncheck` do the same on
arrays. `circuits` and `programs` draw random circuits and random NumPy programs; `bench` measures native code. No other
room imports these modules, except the command `wiregrad bench`.
"""
