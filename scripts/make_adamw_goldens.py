#!/usr/bin/env python3
"""Prints the golden numbers of tests/optim/inner_adamw_test.cpp, made by PyTorch.

Eight parameters, the first five with weight decay; gradients and learning rates are given by small
formulas that the test repeats. Gradients are clipped by their global norm. Needs torch; run once:

    python3 scripts/make_adamw_goldens.py
"""

import torch

STEPS = 6
DECAYED = 5
COUNT = 8


def gradient(step: int, index: int) -> float:
    """A small rational number that float32 holds exactly."""
    return ((step * 7 + index * 5) % 17 - 8) / (8.0 if step % 2 else 16.0)


def rate(step: int) -> float:
    return 0.0078125 * step


def show(name: str, tensors) -> None:
    values = torch.cat([tensor.detach() for tensor in tensors])
    print(f"{name} = {{{', '.join(f'{value:.9g}f' for value in values.tolist())}}}")


def main() -> None:
    start = [(index - 3) / 8.0 for index in range(COUNT)]
    decayed = torch.tensor(start[:DECAYED], requires_grad=True)
    plain = torch.tensor(start[DECAYED:], requires_grad=True)
    optimizer = torch.optim.AdamW(
        [{"params": [decayed], "weight_decay": 0.1}, {"params": [plain], "weight_decay": 0.0}],
        lr=1.0, betas=(0.9, 0.95), eps=1e-8)
    norms = []
    for step in range(1, STEPS + 1):
        gradients = torch.tensor([gradient(step, index) for index in range(COUNT)])
        decayed.grad = gradients[:DECAYED].clone()
        plain.grad = gradients[DECAYED:].clone()
        norms.append(torch.nn.utils.clip_grad_norm_([decayed, plain], 1.0))
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.step()
    show("params", [decayed, plain])
    show("moment1", [optimizer.state[decayed]["exp_avg"], optimizer.state[plain]["exp_avg"]])
    show("moment2", [optimizer.state[decayed]["exp_avg_sq"], optimizer.state[plain]["exp_avg_sq"]])
    show("norms", [torch.stack(norms)])


if __name__ == "__main__":
    main()
