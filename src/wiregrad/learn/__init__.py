"""Learn: questions that are generated from circuits and know which mistake an answer shows, and lessons made of them.

Start with `quiz`: `Quiz` asks, checks and adapts. `questions` has the kinds of questions and the filter that keeps out
unclear ones. `quiz_run` has the circuit, the run and the random numbers that all of them share; it runs mutant backward
rules and reads what learners type. `sentences` holds every text.
`lessons` reads the lessons of `course/`, which are Markdown, for the page, and plays again what a learner did in one.
`handwritten` names the mistake of a gradient that was written by hand. `drawing` checks circuits that learners draw.
`teaching` writes question sets as pages, grades answers and keeps a gradebook.

Other rooms call `Quiz`, `QuestionSource`, `lessons`, `name_mistakes` and what `teaching` has. All but the questions for
a backward rule, gradients by hand and grading has a twin in `web/src/learn`: the same seed gives the same questions and
verdicts there.
"""
