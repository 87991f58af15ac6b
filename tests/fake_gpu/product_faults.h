// Faults in what a program asks of products: see `faults.h`.
#pragma once

#include <cstdio>

#include "fake_gpu.h"
#include "products.h"

namespace fake_gpu {

// Whether FAKE_GPU_FAULT has a fault of a kind for this product.
inline bool has_fault(const char* kind, const Product& product, float beta, const char* what = "") {
    const char* const EPILOGUES[] = {beta != 0 ? "add" : "put", "bias", "gelu", "dgelu"};
    const char* letters = EPILOGUES[size_t(product.epilogue)];
    char place[128];
    snprintf(place, sizeof place, "%zux%zux%zu-%s%s-%d-%d-%s%s", size_t(product.d.rows),
             size_t(product.d.columns), size_t(product.inner()), product.a_is_transposed ? "T" : "N",
             product.b_is_transposed ? "T" : "N", product.a.type, product.d.type, letters, what);
    return fake_gpu_has_fault(kind, place);
}

// The product as a program with the chosen fault would have asked for it: one that adds for one that
// overwrites, or the other way about; or one of whose matrices begins later than it should.
inline void put_faults_in(const Product& product, float& beta, const void* (&matrices)[4]) {
    const char* const PLACES[4][2] = {
        {".a+2", ".a+4"}, {".b+2", ".b+4"}, {".c+2", ".c+4"}, {".d+2", ".d+4"}
    };
    for (int index = 0; index < 4; index++) {
        // C is not looked at by a product that overwrites.
        for (int step = 0; step < 2 && (index != 2 || beta != 0); step++) {
            if (has_fault("matrix", product, beta, PLACES[index][step])) {
                matrices[index] = (const char*)matrices[index] + 2 + 2 * step;
            }
        }
    }
    if (has_fault("beta", product, beta)) {
        beta = beta != 0 ? 0 : 1;
    }
}

}
