"""Listings in CUDA C++: a device function for one point, and a kernel over a batch of points.

The points are interleaved: number k of point i is `x[k * n + i]`, so that neighbouring threads read neighbouring
numbers.
"""

from __future__ import annotations

import re

from wiregrad.codegen.c import CFunctions, CLanguage, define_with_guard, choose_real, count_results
from wiregrad.codegen.guards import ListingGuard
from wiregrad.codegen.identifiers import Identifiers
from wiregrad.codegen.listing import Listing

CUDA_RESERVED = frozenset(
    "threadIdx blockIdx blockDim gridDim warpSize __global__ __device__ __shared__ __constant__ dim3 float2 float3 "
    "float4 double2 double3 double4 int2 int3 int4 uint2 uint3 uint4 min max clock rsqrt rcbrt sinpi cospi norm "
    "norm3d norm4d exp10 erfcx erfinv erfcinv normcdf normcdfinv rhypot fdividef".split()
)


class CudaLanguage(CLanguage):
    """CUDA C++."""

    title = "CUDA"
    reserved = CLanguage.reserved | CUDA_RESERVED
    macros = re.compile(rf"{CLanguage.macros.pattern}|(cuda|L_|P_)\w*")
    static = False
    function = "__device__ static"


CUDA_LANGUAGES = {real: CudaLanguage(real) for real in ("double", "float")}


def to_cuda(listing: Listing, name: str, real: str | None = None, guard: ListingGuard | None = None) -> str:
    """Return a listing in CUDA C++."""
    language = CUDA_LANGUAGES[choose_real(listing, real)]
    body = CFunctions(language, listing, name, guard)
    head = "\n".join([f"// {body.writer.write_title()}", *body.describe_arguments(), "#include <math.h>"])
    return "\n\n".join([head, *define_with_guard(body, "__device__ static ", arrays=False), _write_kernel(body)]) + "\n"


def _write_kernel(body: CFunctions) -> str:
    real = body.language.real
    sizes = count_results(body.listing)
    own = Identifiers([body.name, *body.language.reserved])
    x, n, i, k, point = (own.take_name(name) for name in ("x", "n", "i", "k", "point"))
    value = [own.take_name("value")] if body.returns_value() else []
    results = {key: own.take_name(key) for key in body.results}
    here = {key: own.take_name(f"{key}_here") for key in body.results}
    parameters = [f"const {real} *{x}", *(f"{real} *{result}" for result in (*value, *results.values()))]
    inputs = len(body.listing.inputs)
    call = f"{body.name}({', '.join([point, *here.values()])})"
    lines = [
        f"const long {i} = (long)blockIdx.x * blockDim.x + threadIdx.x;",
        f"if ({i} >= {n}) return;",
        f"{real} {point}[{max(1, inputs)}];",
        f"for (long {k} = 0; {k} < {inputs}; {k}++) {point}[{k}] = {x}[{k} * {n} + {i}];",
        *(f"{real} {here[key]}[{max(1, sizes[key])}];" for key in here),
        f"{value[0]}[{i}] = {call};" if value else f"{call};",
        *(
            f"for (long {k} = 0; {k} < {sizes[key]}; {k}++) {results[key]}[{k} * {n} + {i}] = {here[key]}[{k}];"
            for key in here
        ),
    ]
    doc = "One thread for each of n points; number k of point i stands at k * n + i."
    head = f'extern "C" __global__ void {body.name}_batch(long {n}, {", ".join(parameters)}) {{'
    return "\n".join([f"// {doc}", head, *(f"    {line}" for line in lines), "}"])
