// The driver's calls that copy and set memory.
//
// As "API synchronization behavior" of the driver's manual says: to pageable memory the call waits; page-locked
// memory is read and written when the stream comes to it. Pageable memory is read at the call, or with `Async` also
// when the stream comes to it, and arrives then.
#pragma once

static void copy_bytes(void* to, const void* from, size_t num_bytes, const char* what) {
    accessed(to, num_bytes, Access::Write, what);
    accessed(from, num_bytes, Access::Read, what);
    bool begins_below_end = (char*)to < (const char*)from + num_bytes;
    bool ends_above_begin = (const char*)from < (char*)to + num_bytes;
    if (num_bytes != 0 && begins_below_end && ends_above_begin) {
        stop("%s: %zu bytes from %p to %p overlap", what, num_bytes, from, to);
    }
    memcpy(to, from, num_bytes);
}

// When a copy from pageable memory reads it.
enum class Reads { AtTheCall, AtTheCallOrLater };

static Result copy_to_device(void* to, const void* from, size_t num_bytes, void* stream, Reads reads) {
    const char* what = "a copy to the device";
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    if (is_pinned(from, num_bytes)) {
        put(call.stream, {what, [=] { copy_bytes(to, from, num_bytes, what); }});
        return SUCCESS;
    }
    if (reads == Reads::AtTheCallOrLater && world().random.below(2) == 0) {
        put(call.stream, {what, [=] {
            accessed(to, num_bytes, Access::Write, what);
            memcpy(to, from, num_bytes);
        }});
        return SUCCESS;
    }
    auto values = std::make_shared<std::vector<char>>((const char*)from, (const char*)from + num_bytes);
    put(call.stream, {what, [=] {
        accessed(to, num_bytes, Access::Write, what);
        memcpy(to, values->data(), num_bytes);
    }});
    return SUCCESS;
}

EXPORTED Result cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t num_bytes, void* stream) {
    return copy_to_device(to, from, num_bytes, stream, Reads::AtTheCallOrLater);
}

EXPORTED Result cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t num_bytes, void* stream) {
    const char* what = "a copy to the host";
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    if (is_pinned(to, num_bytes)) {
        put(call.stream, {what, [=] { copy_bytes(to, from, num_bytes, what); }});
        return SUCCESS;
    }
    if (has_fault_here("download")) {
        put(call.stream, {what, [=] { memcpy(to, from, num_bytes); }});
        return SUCCESS;
    }
    // A call that gives up takes its target back: the caller may free it.
    auto is_given_up = std::make_shared<bool>(false);
    put(call.stream, {what, [=] {
        accessed(from, num_bytes, Access::Read, what);
        if (!*is_given_up) {
            memcpy(to, from, num_bytes);
        }
    }});
    Result result = wait_for_stream(call.lock, call.stream);
    *is_given_up = result != SUCCESS;
    return result;
}

EXPORTED Result cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t num_bytes, void* stream) {
    const char* what = "a copy within devices";
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    Operation copy{what, [=] { copy_bytes(to, from, num_bytes, what); }};
    copy.lasts_ns = BLOCK_NS * ((num_bytes + BLOCK_BYTES - 1) / BLOCK_BYTES);
    put(call.stream, std::move(copy));
    return SUCCESS;
}

EXPORTED Result cuMemcpyPeerAsync(void* to, void*, const void* from, void*, size_t num_bytes, void* stream) {
    return cuMemcpyDtoDAsync_v2(to, from, num_bytes, stream);
}

// The synchronous copies are on the default stream, and return when the host may go on: from and within a
// device that is before the copy has arrived.

EXPORTED Result cuMemcpyHtoD_v2(void* to, const void* from, size_t num_bytes) {
    bool must_wait;
    {
        StreamCall call(nullptr);
        if (call.error) {
            return call.error;
        }
        if (Result error = wait_for_stream(call.lock, call.stream)) {
            return error;
        }
        must_wait = is_pinned(from, num_bytes);
    }
    Result result = copy_to_device(to, from, num_bytes, nullptr, Reads::AtTheCall);
    return result == SUCCESS && must_wait ? cuStreamSynchronize(nullptr) : result;
}

EXPORTED Result cuMemcpyDtoH_v2(void* to, const void* from, size_t num_bytes) {
    Result result = cuMemcpyDtoHAsync_v2(to, from, num_bytes, nullptr);
    return result == SUCCESS ? cuStreamSynchronize(nullptr) : result;
}

EXPORTED Result cuMemcpyDtoD_v2(void* to, const void* from, size_t num_bytes) {
    return cuMemcpyDtoDAsync_v2(to, from, num_bytes, nullptr);
}

template <class T>
static Result put_set(void* to, T value, size_t count, void* stream) {
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    if ((uintptr_t)to % sizeof(T) != 0) {
        return INVALID_VALUE;
    }
    put(call.stream, {"a set", [=] {
        accessed(to, count * sizeof value, Access::Write, "a set");
        std::fill_n((T*)to, count, value);
    }});
    return SUCCESS;
}

EXPORTED Result cuMemsetD8Async(void* to, unsigned char value, size_t count, void* stream) {
    return put_set(to, value, count, stream);
}

EXPORTED Result cuMemsetD16Async(void* to, unsigned short value, size_t count, void* stream) {
    return put_set(to, value, count, stream);
}

EXPORTED Result cuMemsetD32Async(void* to, unsigned value, size_t count, void* stream) {
    return put_set(to, value, count, stream);
}

// Also without `Async` a device's memory may be set after the call.

EXPORTED Result cuMemsetD8_v2(void* to, unsigned char value, size_t count) {
    return put_set(to, value, count, nullptr);
}

EXPORTED Result cuMemsetD32_v2(void* to, unsigned value, size_t count) {
    return put_set(to, value, count, nullptr);
}
