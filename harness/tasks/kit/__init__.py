"""Everything that tasks are made with: facts, steps, prompts, generated pages, checks and graders, and programs to build.

A task is a package with the same modules as its neighbours: `facts` (what must be remembered, and its values under a seed),
`steps` (the script), `checks` (checks and grader), `workspace` (the files that the agent finds), and the folder `files` with
its texts as `string.Template`s. They end in `.tmpl`, so that no checker takes an unfilled template for Python.
"""
