// The driver's calls about itself, devices and contexts.
#pragma once

EXPORTED Result cuInit(unsigned flags) {
    if (Result error = begin(Needs::Nothing)) {
        return error;
    }
    if (flags != 0) {
        return INVALID_VALUE;
    }
    world().is_initialized = true;
    if (getenv("FAKE_GPU_HOST")) {
        go_on_alone();
    }
    return world().num_devices > 0 ? SUCCESS : Result(100);
}

EXPORTED Result cuDriverGetVersion(int* version) {
    *version = 13000;
    return SUCCESS;
}

EXPORTED Result cuGetErrorName(Result error, const char** text) {
    switch (error) {
        case SUCCESS: *text = "CUDA_SUCCESS"; break;
        case INVALID_VALUE: *text = "CUDA_ERROR_INVALID_VALUE"; break;
        case OUT_OF_MEMORY: *text = "CUDA_ERROR_OUT_OF_MEMORY"; break;
        case NOT_INITIALIZED: *text = "CUDA_ERROR_NOT_INITIALIZED"; break;
        case INVALID_DEVICE: *text = "CUDA_ERROR_INVALID_DEVICE"; break;
        case INVALID_IMAGE: *text = "CUDA_ERROR_INVALID_IMAGE"; break;
        case INVALID_CONTEXT: *text = "CUDA_ERROR_INVALID_CONTEXT"; break;
        case INVALID_HANDLE: *text = "CUDA_ERROR_INVALID_HANDLE"; break;
        case NOT_FOUND: *text = "CUDA_ERROR_NOT_FOUND"; break;
        case NOT_READY: *text = "CUDA_ERROR_NOT_READY"; break;
        case LAUNCH_OUT_OF_RESOURCES: *text = "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES"; break;
        case PEER_ACCESS_ALREADY_ENABLED: *text = "CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED"; break;
        case LAUNCH_TIMEOUT: *text = "CUDA_ERROR_LAUNCH_TIMEOUT"; break;
        case HOST_MEMORY_ALREADY_REGISTERED: *text = "CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED"; break;
        case HOST_MEMORY_NOT_REGISTERED: *text = "CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED"; break;
        case NOT_PERMITTED: *text = "CUDA_ERROR_NOT_PERMITTED"; break;
        case NOT_SUPPORTED: *text = "CUDA_ERROR_NOT_SUPPORTED"; break;
        case UNKNOWN: *text = "CUDA_ERROR_UNKNOWN"; break;
        default: *text = error == 100 ? "CUDA_ERROR_NO_DEVICE" : nullptr; break;
    }
    return *text ? SUCCESS : INVALID_VALUE;
}

EXPORTED Result cuGetErrorString(Result error, const char** text) { return cuGetErrorName(error, text); }

EXPORTED Result cuDeviceGetCount(int* count) {
    if (Result error = begin(Needs::Driver)) {
        return error;
    }
    *count = world().num_devices;
    return SUCCESS;
}

static Result begin_with_device(int device) {
    if (Result error = begin(Needs::Driver)) {
        return error;
    }
    return device >= 0 && device < world().num_devices ? SUCCESS : INVALID_DEVICE;
}

EXPORTED Result cuDeviceGet(int* device, int ordinal) {
    if (Result error = begin_with_device(ordinal)) {
        return error;
    }
    *device = ordinal;
    return SUCCESS;
}

EXPORTED Result cuDeviceGetName(char* name, int length, int device) {
    if (Result error = begin_with_device(device)) {
        return error;
    }
    snprintf(name, size_t(length), "fake GPU %d", world().devices[size_t(device)]);
    return SUCCESS;
}

EXPORTED Result cuDeviceGetUuid_v2(char* uuid, int device) {
    if (Result error = begin_with_device(device)) {
        return error;
    }
    memset(uuid, world().devices[size_t(device)], 16);
    return SUCCESS;
}

EXPORTED Result cuDeviceTotalMem_v2(size_t* num_bytes, int device) {
    if (Result error = begin_with_device(device)) {
        return error;
    }
    *num_bytes = world().memory_bytes;
    return SUCCESS;
}

// CUdevice_attribute and its value: of an H100 where the program may ask.
static const int ATTRIBUTES[][2] = {
    {1, 1024}, {2, 1024}, {3, 1024}, {4, 64}, {5, 0x7fffffff}, {6, 65535}, {7, 65535}, {8, 49152}, {10, 32},
    {12, 65536}, {13, 1980000}, {16, NUM_MULTIPROCESSORS}, {19, 1}, {31, 1}, {38, 52428800}, {39, 2048}, {40, 2}, {41, 1},
    {75, 9}, {76, 0}, {81, 233472}, {92, 1}, {93, 1}, {97, 232448}, {115, 1}, {122, 1},
};

EXPORTED Result cuDeviceGetAttribute(int* value, int attribute, int device) {
    if (Result error = begin_with_device(device)) {
        return error;
    }
    *value = 0;
    for (auto& [known, its_value] : ATTRIBUTES) {
        if (known == attribute) {
            *value = its_value;
        }
    }
    // FAKE_GPU_ATTRIBUTES, as `NUMBER=VALUE,NUMBER=VALUE`.
    const char* others = getenv("FAKE_GPU_ATTRIBUTES");
    int number = 0, its_value = 0, length = 0;
    while (others && sscanf(others, "%d=%d%n", &number, &its_value, &length) == 2) {
        if (number == attribute) {
            *value = its_value;
        }
        others += length + (others[length] == ',');
    }
    return SUCCESS;
}

EXPORTED Result cuDeviceCanAccessPeer(int* can_access, int device, int peer) {
    if (Result error = begin_with_device(device)) {
        return error;
    }
    *can_access = device != peer;
    return SUCCESS;
}

EXPORTED Result cuCtxEnablePeerAccess(void* peer, unsigned) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    int reached = ((Context*)peer)->device;
    if (reached == current_context->device) {
        return INVALID_DEVICE;
    }
    Lock lock = lock_world();
    bool is_new = memory().reached.insert({current_context->device, reached}).second;
    return is_new ? SUCCESS : PEER_ACCESS_ALREADY_ENABLED;
}

EXPORTED Result cuDevicePrimaryCtxRetain(void** context, int device) {
    if (Result error = begin_with_device(device)) {
        return error;
    }
    *context = context_of(device);
    return SUCCESS;
}

// Contexts stay: what they hold is kept until the process ends.
EXPORTED Result cuDevicePrimaryCtxRelease_v2(int device) { return begin_with_device(device); }

EXPORTED Result cuCtxSetCurrent(void* context) {
    if (Result error = begin(Needs::Driver)) {
        return error;
    }
    current_context = (Context*)context;
    return SUCCESS;
}

EXPORTED Result cuCtxGetCurrent(void** context) {
    if (Result error = begin(Needs::Driver)) {
        return error;
    }
    *context = current_context;
    return SUCCESS;
}

EXPORTED Result cuCtxGetDevice(int* device) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    *device = current_context->device;
    return SUCCESS;
}

EXPORTED Result cuCtxSetFlags(unsigned) { return begin(Needs::Context); }

EXPORTED Result cuCtxGetStreamPriorityRange(int* least, int* greatest) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    *least = 0;
    *greatest = -5;
    return SUCCESS;
}
