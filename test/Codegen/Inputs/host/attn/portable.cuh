#pragma once
#include "attn/scalar.cuh"
