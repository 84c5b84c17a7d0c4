"""Writes gptq3.safetensors: GPTQ matrices of 3 bits, packed as AutoGPTQ and GPTQModel pack them, 32 values in three words.

The words of 32 values v0 .. v31 are: v0 .. v9 from bit 0 of the first word on, three bits each; v10 takes its two upper bits
and the lowest of the second word; v11 .. v20 from bit 1 of the second word on; v21 takes its upper bit and the two lowest of
the third; v22 .. v31 from bit 2 of the third word on. `expected` is scale * (code - zero), one float32 rounding. Run in this
folder with numpy and safetensors."""

import json

import numpy as np
from safetensors.numpy import save_file

OUTPUTS, INPUTS, GROUP = 64, 96, 32
CASES = {
    "v1-3bit-symmetric": {"sym": True, "desc_act": False, "checkpoint_format": "gptq"},
    "v1-3bit-asymmetric": {"sym": False, "desc_act": False, "checkpoint_format": "gptq"},
    "v2-3bit-asymmetric": {"sym": False, "desc_act": False, "checkpoint_format": "gptq_v2"},
    "v1-3bit-act-order": {"sym": False, "desc_act": True, "checkpoint_format": "gptq"},
}


def pack(values: np.ndarray) -> np.ndarray:
    """[n, m] codes of 3 bits to [3 n / 32, m] words, along the first axis."""
    n, m = values.shape
    words = np.zeros((n // 32 * 3, m), dtype=np.uint64)
    for block in range(n // 32):
        v = values[block * 32 : block * 32 + 32].astype(np.uint64)
        w = words[block * 3 : block * 3 + 3]
        for k in range(10):
            w[0] |= v[k] << np.uint64(3 * k)
            w[1] |= v[11 + k] << np.uint64(3 * k + 1)
            w[2] |= v[22 + k] << np.uint64(3 * k + 2)
        w[0] |= (v[10] & np.uint64(3)) << np.uint64(30)
        w[1] |= v[10] >> np.uint64(2)
        w[1] |= (v[21] & np.uint64(1)) << np.uint64(31)
        w[2] |= v[21] >> np.uint64(1)
    assert words.max() < 1 << 32
    return words.astype(np.uint32).view(np.int32)


def main() -> None:
    draw = np.random.default_rng(3)
    tensors, cases = {}, {}
    groups = INPUTS // GROUP
    for name, settings in CASES.items():
        codes = draw.integers(0, 8, (INPUTS, OUTPUTS))
        scales = draw.uniform(0.001, 0.1, (groups, OUTPUTS)).astype(np.float16)
        plus = 1 if settings["checkpoint_format"] == "gptq" else 0
        zeros = np.full((groups, OUTPUTS), 4) if settings["sym"] else draw.integers(plus, 8, (groups, OUTPUTS))
        index = np.arange(INPUTS) // GROUP
        if settings["desc_act"]:
            index = draw.permutation(index)
            tensors[f"{name}.g_idx"] = index.astype(np.int32)
        wide = scales.astype(np.float64)[index] * (codes - zeros[index])
        tensors[f"{name}.qweight"] = pack(codes)
        tensors[f"{name}.qzeros"] = np.ascontiguousarray(pack((zeros - plus).T).T)
        tensors[f"{name}.scales"] = scales
        tensors[f"{name}.expected"] = np.ascontiguousarray(wide.astype(np.float32).T)
        config = {"quant_method": "gptq", "bits": 3, "group_size": GROUP, **settings}
        cases[name] = {"format": "gptq", "quantization_config": config, "expected_by": "formula"}
    save_file(tensors, "gptq3.safetensors", metadata={"cases": json.dumps(cases)})


if __name__ == "__main__":
    main()
