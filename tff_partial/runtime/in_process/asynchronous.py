"""The in-process context for TFF's programs: `tff.learning.programs.train_model` and its like.

    context = tff.program.NativeFederatedContext(AsyncInProcessContext())
    with tff.framework.get_context_stack().install(context):
        asyncio.run(tff.learning.programs.train_model(...))

Computations run one after the other in a thread, so that the event loop stays free. Programs want
what clients report under `train`, which `processes.programs` sees to.
"""

import asyncio
import concurrent.futures
from typing import Optional

import tensorflow_federated as tff

from tff_partial.core.types import Computation, Structure
from tff_partial.runtime.in_process.context import InProcessContext


class AsyncInProcessContext(tff.framework.AsyncContext):
    """Runs TFF computations with the TensorFlow of this process, in a thread of their own."""

    def __init__(self, context: Optional[InProcessContext] = None) -> None:
        """Create the context around another one, by default a new `InProcessContext`."""
        self._context = context or InProcessContext()
        self._thread = concurrent.futures.ThreadPoolExecutor(max_workers=1)

    async def invoke(self, comp: Computation, arg: Structure) -> Structure:
        """Run a computation; TFF awaits this when a computation is called."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, self._context.invoke, comp, arg)

    def close(self) -> None:
        """Stop the threads and free compiled computations."""
        self._thread.shutdown()
        self._context.close()
