import pickle
import subprocess
import sys

import numpy as np

from tff_partial.runtime.ray.messages import Call, Failure, Kept, Reply


def test_messages_come_back_as_they_were_sent():
    call = Call(Kept(b"plan", 1), 0, Kept(b"shared", 2), [1, 0], [[Kept(b"data", 3)]], False)
    assert pickle.loads(pickle.dumps(call)) == call
    reply = Reply([[np.arange(3)]], Failure(1, 3, "no"), 0.5)
    again = pickle.loads(pickle.dumps(reply))
    assert again.failure == reply.failure
    np.testing.assert_array_equal(again.results[0][0], np.arange(3))


def test_messages_import_neither_ray_nor_tensorflow():
    code = (
        "import sys, tff_partial.runtime.ray.messages\n"
        "sys.exit(any(m in sys.modules for m in ('ray', 'tensorflow')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
