"""Measurements behind every claim of speed: ratios within one run, never bare seconds.

python -m benchmarks                          # all of them
python -m benchmarks import_time              # some of them; import_time and chain need no other framework
python -m benchmarks native --quick           # native code beside other frameworks, at small sizes
python -m benchmarks native -o FILE.md        # what was found, as a page; or FILE.json
"""
