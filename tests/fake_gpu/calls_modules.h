// The driver's calls about programs and kernels.
#pragma once

// What libnvrtc's programs begin with; a line with the type of elements and one for each kernel follow.
static const char PROGRAM_MARK[] = "// a program for the fake GPU\n";
static const char ELEMENT_MARK[] = "// elements ";
static const char KERNEL_MARK[] = "// kernel ";

EXPORTED Result cuModuleLoadData(void** module, const void* image) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    const char* text = (const char*)image;
    if (strncmp(text, PROGRAM_MARK, strlen(PROGRAM_MARK)) != 0) {
        return INVALID_IMAGE;
    }
    auto* loaded = new Module{current_context, {}, {}};
    if (const char* element = strstr(text, ELEMENT_MARK)) {
        element += strlen(ELEMENT_MARK);
        loaded->element = std::string(element, strcspn(element, "\n"));
    }
    for (text = strstr(text, KERNEL_MARK); text; text = strstr(text, KERNEL_MARK)) {
        text += strlen(KERNEL_MARK);
        loaded->names.insert(std::string(text, strcspn(text, "\n")));
    }
    *module = loaded;
    return SUCCESS;
}

EXPORTED Result cuModuleLoadDataEx(void** module, const void* image, unsigned, int*, void**) {
    return cuModuleLoadData(module, image);
}

EXPORTED Result cuModuleUnload(void* module) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    delete (Module*)module;
    return SUCCESS;
}

// Functions are never freed: the driver has no call for it.
EXPORTED Result cuModuleGetFunction(void** function, void* module, const char* name) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    auto* loaded = (Module*)module;
    const Kernel* kernel = find_kernel(loaded->element, name);
    if (!kernel || !loaded->names.contains(name)) {
        return NOT_FOUND;
    }
    *function = new Function{kernel, loaded->context};
    return SUCCESS;
}

EXPORTED Result cuFuncGetAttribute(int* value, int attribute, void* function) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    const int NUM_THREADS_MAX = 0;
    *value = attribute == NUM_THREADS_MAX ? int(((Function*)function)->kernel->num_threads_max) : 0;
    return SUCCESS;
}

// Nothing that can be set has an effect here.
EXPORTED Result cuFuncSetAttribute(void*, int, int) { return begin(Needs::Context); }
EXPORTED Result cuFuncSetCacheConfig(void*, int) { return begin(Needs::Context); }

EXPORTED Result cuOccupancyMaxActiveBlocksPerMultiprocessor(int* num_blocks, void*, int block_size, size_t) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    *num_blocks = 2048 / std::max(block_size, 1);
    return SUCCESS;
}

static Result check_launch(const Kernel& kernel, Index3 grid, Index3 size, unsigned shared_bytes) {
    bool is_empty = grid.count() == 0 || size.count() == 0;
    bool is_large_grid = grid.x > 0x7fffffff || grid.y > 65535 || grid.z > 65535;
    bool is_large_block = size.z > 64 || size.count() > NUM_THREADS_MAX;
    if (is_empty || is_large_grid || is_large_block) {
        return INVALID_VALUE;
    }
    // Kernels cannot have shared memory whose size the launch says: `device.h` has no `extern __shared__`.
    if (shared_bytes != 0) {
        return NOT_SUPPORTED;
    }
    return size.count() > kernel.num_threads_max ? LAUNCH_OUT_OF_RESOURCES : SUCCESS;
}

EXPORTED Result cuLaunchKernel(
    void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned size_x, unsigned size_y,
    unsigned size_z, unsigned shared_bytes, void* stream, void** arguments, void** extra
) {
    if (Result error = begin(Needs::Context)) {
        return error;
    }
    auto* launched = (Function*)function;
    const Kernel& kernel = *launched->kernel;
    int device = launched->context->device;
    auto launch =
        std::make_shared<Launch>(Launch{{grid_x, grid_y, grid_z}, {size_x, size_y, size_z}, device, {}});
    if (Result error = check_launch(kernel, launch->grid, launch->size, shared_bytes)) {
        return error;
    }
    if (extra || (!arguments && !kernel.sizes.empty())) {
        return INVALID_VALUE;
    }
    for (size_t index = 0; index < kernel.sizes.size(); index++) {
        const char* bytes = (const char*)arguments[index];
        launch->arguments.emplace_back(bytes, bytes + kernel.sizes[index]);
    }
    Lock lock = lock_world();
    Stream* found = find_stream(stream);
    if (!found || found->device != launched->context->device) {
        return INVALID_HANDLE;
    }
    Operation operation{kernel.name, [&kernel, launch] { run_kernel(kernel, *launch); }};
    operation.lasts_ns = BLOCK_NS * launch->grid.count();
    put(found, std::move(operation));
    return SUCCESS;
}
