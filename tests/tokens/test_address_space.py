"""Under `ulimit -v` the encoder, which is not written in Python, must not end the process."""

import subprocess
import sys

import pytest

CODE = """if True:
    import os, resource, sys
    from tokenmill.errors import TokenmillError
    from tokenmill.tokens.load_tokenizer import load

    gpt2 = load("gpt2")
    gpt2.encode_batch([b"A few words."])
    letters = bytes(97 + byte % 26 for byte in os.urandom(1 << 20))
    text = b" ".join(letters[i : i + 12] for i in range(0, len(letters), 12)) * 8
    with open("/proc/self/statm") as statm:
        used = int(statm.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    limit = used + (int(sys.argv[1]) << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    try:
        print(len(gpt2.encode_batch([text])[0]) > 1000)
    except (TokenmillError, MemoryError) as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("megabytes", "said"), [(0, "ulimit -v"), (20, "ulimit -v"), (100, "ulimit -v"), (500, "True")]
)
def test_a_text_that_may_not_fit_is_refused(megabytes, said):
    done = subprocess.run(
        [sys.executable, "-c", CODE, str(megabytes)], capture_output=True, text=True
    )

    assert done.returncode == 0, done.stderr
    assert said in done.stdout
