"""Python imports this when it starts, if this folder is in PYTHONPATH: see disguise.py."""

import os

if os.environ.get("DISGUISE"):
    import disguise

    disguise.put_on(os.environ["DISGUISE"])
