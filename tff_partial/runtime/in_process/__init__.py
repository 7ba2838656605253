"""Runs TFF computations in this process, with the installed TensorFlow.

How a computation goes through the modules when it is first called (`context`):

1. TFF's compiler brings it to its native form.
2. `planner` evaluates TFF's language: what remains are `steps` on tensors and sequences
   (`sequences`), in levels: the server's steps, every client's steps, the sums over the clients.
3. `graphs` rewrites the TensorFlow graphs of the steps (`nodes`, `initializers`, `loops`,
   `devices`), and `functions` traces all steps of a stage as one function.

Every call then takes the argument apart (`values`) and runs the levels (`execution`): one function
call for the server, one for each client in threads (`parallel`), whose results are folded in the
order of the clients (`folds`).
"""
