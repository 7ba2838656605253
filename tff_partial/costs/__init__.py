"""What training costs a client; prints it with `python -m tff_partial.costs`.

model = ModelSpec(create_my_sequential, input_shape=(28, 28, 1))
for block in costs.measure(model):
    print(block)
cut = costs.cut_of(tiers.create("weak"), model, batch_size=32)
print(costs.whole(model, 32), costs.recorded_suffix(model, cut, 32))
"""

from tff_partial.costs.blocks import measure
from tff_partial.costs.budgets import cut_of, rate_of, shares, smallest_cut
from tff_partial.costs.clients import (
    ClientCost,
    average_capacity,
    backprop_suffix,
    between,
    channels,
    mean,
    narrow,
    prefix,
    recorded_suffix,
    sparse,
    whole,
)
from tff_partial.costs.cuts import (
    capacity,
    capacity_batch,
    deepest_cut,
    forward_steps,
    prefix_capacity,
)
