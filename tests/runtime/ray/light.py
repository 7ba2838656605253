"""An actor without TensorFlow."""

import os

import ray

from tff_partial.runtime.ray.messages import Introduction

VERSIONS = (("light", "1"),)


class LightActor:
    """Says where it is."""

    def __init__(self, settings):
        assert settings.uses_gpu

    def introduce(self):
        node = ray.get_runtime_context().get_node_id()
        gpus = os.environ.get("CUDA_VISIBLE_DEVICES", "")
        return Introduction(node, "here", os.getpid(), "", gpus, VERSIONS)
