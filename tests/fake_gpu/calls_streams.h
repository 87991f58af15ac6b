// The driver's calls about streams and events.
#pragma once

static const unsigned WITHOUT_TIME = 2; // CU_EVENT_DISABLE_TIMING

EXPORTED Result cuStreamCreate(void** stream, unsigned) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    *stream = create_stream(current_context->device);
    return SUCCESS;
}

EXPORTED Result cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
    return cuStreamCreate(stream, flags);
}

// Begins a call about a stream: locks, and finds the stream.
struct StreamCall {
    Result error;
    Lock lock;
    Stream* stream = nullptr;

    explicit StreamCall(void* handle) : error(begin(Needs::Context)) {
        if (error == SUCCESS) {
            lock = lock_world();
            stream = find_stream(handle);
            error = stream ? SUCCESS : INVALID_HANDLE;
        }
    }
};

// What it was asked for is still done.
EXPORTED Result cuStreamDestroy_v2(void* stream) {
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    call.stream->is_destroyed = true;
    forget_destroyed();
    return SUCCESS;
}

EXPORTED Result cuStreamSynchronize(void* stream) {
    if (has_fault_here("synchronize")) {
        return SUCCESS;
    }
    StreamCall call(stream);
    return call.error ? call.error : wait_for_stream(call.lock, call.stream);
}

EXPORTED Result cuStreamQuery(void* stream) {
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    run_some(call.lock);
    // Another thread may have destroyed it while a function of the host ran.
    Stream* found = find_stream(stream);
    if (found && !found->queue.empty()) {
        return NOT_READY;
    }
    if (found) {
        host_has_seen(found->before);
        host_waited_until(found->free_ns);
    }
    return SUCCESS;
}

EXPORTED Result cuStreamGetCtx(void* stream, void** context) {
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    *context = context_of(call.stream->device);
    return SUCCESS;
}

EXPORTED Result cuStreamIsCapturing(void* stream, int* status) {
    *status = 0;
    return StreamCall(stream).error;
}

EXPORTED Result cuCtxSynchronize() {
    if (has_fault_here("synchronize")) {
        return SUCCESS;
    }
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    std::vector<std::shared_ptr<Record>> points;
    for (auto& stream : streams().all) {
        if (stream->device == current_context->device) {
            points.push_back(put_record(stream.get()));
        }
    }
    return wait_for(lock, points);
}

EXPORTED Result cuLaunchHostFunc(void* stream, void (*function)(void*), void* argument) {
    if (has_fault_here("function")) {
        function(argument);
        return SUCCESS;
    }
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    put(call.stream, {"a function of the host", [=] { function(argument); }, nullptr, true});
    return SUCCESS;
}

template <class T>
static Result put_value(void* stream, void* address, T value, unsigned flags) {
    StreamCall call(stream);
    if (call.error) {
        return call.error;
    }
    const unsigned NO_MEMORY_BARRIER = 1;
    if ((uintptr_t)address % sizeof(T) != 0 || flags > NO_MEMORY_BARRIER) {
        return INVALID_VALUE;
    }
    put(call.stream, {"a value's write", [=] {
        accessed(address, sizeof value, Access::Write, "cuStreamWriteValue");
        __atomic_store_n((T*)address, value, __ATOMIC_RELEASE);
    }});
    return SUCCESS;
}

EXPORTED Result cuStreamWriteValue32_v2(void* stream, void* address, uint32_t value, unsigned flags) {
    return put_value(stream, address, value, flags);
}

EXPORTED Result cuStreamWriteValue64_v2(void* stream, void* address, uint64_t value, unsigned flags) {
    return put_value(stream, address, value, flags);
}

EXPORTED Result cuEventCreate(void** event, unsigned flags) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    Lock lock = lock_world();
    auto* created = new Event{current_context->device, (flags & WITHOUT_TIME) == 0, nullptr};
    streams().events.insert(created);
    *event = created;
    return SUCCESS;
}

// Begins a call about an event: locks, and finds the event.
struct EventCall {
    Result error;
    Lock lock;
    Event* event = nullptr;

    explicit EventCall(void* handle) : error(begin(Needs::Context)) {
        if (error == SUCCESS) {
            lock = lock_world();
            event = find_event(handle);
            error = event ? SUCCESS : INVALID_HANDLE;
        }
    }
};

EXPORTED Result cuEventDestroy_v2(void* event) {
    EventCall call(event);
    if (call.error) {
        return call.error;
    }
    streams().events.erase(call.event);
    delete call.event;
    return SUCCESS;
}

EXPORTED Result cuEventRecord(void* event, void* stream) {
    if (has_fault_here("record")) {
        return SUCCESS;
    }
    EventCall call(event);
    if (call.error) {
        return call.error;
    }
    Stream* found = find_stream(stream);
    if (!found || found->device != call.event->device) {
        return INVALID_HANDLE;
    }
    call.event->latest = put_record(found);
    if (found->has_messages && found->asks && is_early(found->device)) {
        put_wait(found->asks, call.event);
    }
    return SUCCESS;
}

EXPORTED Result cuEventRecordWithFlags(void* event, void* stream, unsigned) {
    return cuEventRecord(event, stream);
}

EXPORTED Result cuStreamWaitEvent(void* stream, void* event, unsigned) {
    if (has_fault_here("wait")) {
        return SUCCESS;
    }
    EventCall call(event);
    if (call.error) {
        return call.error;
    }
    Stream* found = find_stream(stream);
    if (!found) {
        return INVALID_HANDLE;
    }
    put_wait(found, call.event);
    return SUCCESS;
}

EXPORTED Result cuEventSynchronize(void* event) {
    if (has_fault_here("synchronize")) {
        return SUCCESS;
    }
    EventCall call(event);
    if (call.error) {
        return call.error;
    }
    auto record = call.event->latest;
    return record ? wait_for(call.lock, {record}) : SUCCESS;
}

EXPORTED Result cuEventQuery(void* event) {
    if (has_fault_here("query")) {
        return SUCCESS;
    }
    EventCall call(event);
    if (call.error) {
        return call.error;
    }
    auto record = call.event->latest;
    uint64_t num_changes = streams().num_changes;
    run_some(call.lock);
    if (!record) {
        return SUCCESS;
    }
    if (!record->is_reached) {
        if (num_changes == streams().num_changes && getenv("FAKE_GPU_HOST")) {
            // Another process may need the core to go on.
            world().changed.wait_for(call.lock, std::chrono::microseconds(200));
        }
        return NOT_READY;
    }
    host_has_seen(record->before);
    host_waited_until(record->reached_ns());
    return SUCCESS;
}

EXPORTED Result cuEventElapsedTime_v2(float* milliseconds, void* start, void* end) {
    EventCall call(start);
    if (call.error) {
        return call.error;
    }
    Event* last = find_event(end);
    if (!last || !call.event->has_time || !last->has_time || !call.event->latest || !last->latest) {
        return INVALID_HANDLE;
    }
    if (!call.event->latest->is_reached || !last->latest->is_reached) {
        return NOT_READY;
    }
    *milliseconds = float(double(int64_t(last->latest->ns - call.event->latest->ns)) / 1e6);
    return SUCCESS;
}

EXPORTED Result cuEventElapsedTime(float* milliseconds, void* start, void* end) {
    return cuEventElapsedTime_v2(milliseconds, start, end);
}
