"""The explorer: a page that draws a circuit and lets a person step through it and change its inputs.

The page is written as one HTML file, served on this machine, or shown in a notebook. Python hands it JSON, which holds
what was asked for and nothing else of the user's machine.
"""
