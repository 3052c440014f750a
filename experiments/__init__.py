"""The paper's studies, reproduced: ``python -m experiments --help``.

The way of the data: settings → digits → studies (a model and its loss, from methods) → training → results → report.
The training loop knows nothing of constraints; a method is one file in ``methods/``; a study is one file in
``studies/``; the report is made from the saved results alone.
"""
