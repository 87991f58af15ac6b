#ifndef __CUDACC_RTC__
#include "common.cuh"
#endif

// The documents of a row. Legend: T tokens of a row; `document_starts: [T]`, of each token the position in the
// row at which its document begins, that of the token before it or its own; null where the row is one
// document. A token sees the earlier ones of its document alone.
#ifndef PIPEZERO_DOCUMENTS
#define PIPEZERO_DOCUMENTS

// Those of a row, given those of all rows.
DEVICE const u32* starts_of_row(const u32* document_starts, u64 first_token) {
    return document_starts == nullptr ? nullptr : document_starts + first_token;
}

// Where the document of the token at a position begins.
DEVICE u32 document_start(const u32* document_starts, u32 position) {
    return document_starts == nullptr ? 0 : document_starts[position];
}

// The same, of the row's last token for positions behind it.
DEVICE u32 document_start_inside(const u32* document_starts, u32 position, u32 seq_length) {
    return document_starts == nullptr ? 0 : document_starts[min(position, seq_length - 1)];
}

// The position behind the document of the token at a position: starts do not decrease along a row, so halving
// finds the first that is larger.
DEVICE u32 document_end(const u32* document_starts, u32 position, u32 seq_length) {
    if (document_starts == nullptr) {
        return seq_length;
    }
    u32 first = position + 1;
    u32 num = seq_length - first;
    while (num > 0) {
        u32 half = num / 2;
        if (document_starts[first + half] > position) {
            num = half;
        } else {
            first += half + 1;
            num -= half + 1;
        }
    }
    return first;
}

#endif
