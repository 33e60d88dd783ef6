"""Exchange with other frameworks: watch a PyTorch run, take circuits in from frameworks, and give them out.

Start with `observed_run`: the ops of a framework's run with the framework's own values and gradients, and what can be
asked of them. `torch_watch` records one from PyTorch. A framework is imported when it is first needed; without it,
the error says how to install it.
"""
