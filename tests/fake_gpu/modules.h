// The kernels that this library was built with, and what a launch of one does.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "accesses.h"
#include "device.h"
#include "memory.h"
#include "streams.h"

namespace fake_gpu {

struct Kernel {
    const char* name;
    // As `__launch_bounds__` says.
    unsigned num_threads_max;
    std::vector<size_t> sizes;
    std::vector<bool> is_pointer;
    // Of what a pointer points to; 1 for other arguments.
    std::vector<size_t> alignments;
    // Of one thread.
    void (*body)(void** arguments);
};

template <class A>
constexpr size_t alignment_behind() {
    if constexpr (std::is_pointer_v<A>) {
        return alignof(std::remove_pointer_t<A>);
    }
    return 1;
}

template <auto kernel>
struct Described;

template <class... A, void (*kernel)(A...)>
struct Described<kernel> {
    template <size_t... index>
    static void call(void** arguments, std::index_sequence<index...>) {
        kernel(*(A*)arguments[index]...);
    }

    static Kernel describe(const char* name, unsigned num_threads_max) {
        auto body = [](void** arguments) { call(arguments, std::index_sequence_for<A...>()); };
        return {name, num_threads_max, {sizeof(A)...}, {std::is_pointer_v<A>...},
                {alignment_behind<A>()...}, body};
    }
};

#define KERNEL(name, num_threads_max) fake_gpu::Described<name>::describe(#name, num_threads_max)

}

// Names of kernels and of what they call stay inside this library.
namespace program {
namespace {
#include "kernels.inc"
}
}

namespace fake_gpu {

template <size_t count>
const Kernel* find_kernel(const Kernel (&kernels)[count], const char* name) {
    for (const Kernel& kernel : kernels) {
        if (strcmp(kernel.name, name) == 0) {
            return &kernel;
        }
    }
    return nullptr;
}

// The kernel of this name for elements of a type: `F32`, `BF16` or `F16`.
inline const Kernel* find_kernel(const std::string& element, const char* name) {
    using namespace program;
    return element == "F32"    ? find_kernel(of_F32::all_kernels, name)
           : element == "BF16" ? find_kernel(of_BF16::all_kernels, name)
           : element == "F16"  ? find_kernel(of_F16::all_kernels, name)
                               : nullptr;
}

// A loaded program: its elements and the names of its kernels, which libnvrtc has written down.
struct Module {
    Context* context;
    std::string element;
    std::set<std::string> names;
};

struct Function {
    const Kernel* kernel;
    Context* context;
};

struct Launch {
    Index3 grid, size;
    int device;
    std::vector<std::vector<char>> arguments;
};

inline void check_pointers(const Kernel& kernel, const Launch& launch) {
    for (size_t index = 0; index < kernel.sizes.size(); index++) {
        void* address = nullptr;
        if (kernel.is_pointer[index]) {
            memcpy(&address, launch.arguments[index].data(), sizeof address);
        }
        // One past the end is a view without elements.
        if (!address) {
            continue;
        }
        if ((uintptr_t)address % kernel.alignments[index] != 0) {
            stop("kernel `%s`, argument %zu: %p is not aligned", kernel.name, index, address);
        }
        const Allocation* found = find_live(address, 0);
        if (!found) {
            stop("kernel `%s`, argument %zu: %p is not in live memory", kernel.name, index, address);
        }
        bool is_of_device = !found->is_pinned && !found->is_foreign && found->device != launch.device;
        if (is_of_device && !memory().reached.contains({launch.device, found->device})) {
            stop("kernel `%s`, argument %zu: device %d may not use the memory of device %d", kernel.name,
                 index, launch.device, found->device);
        }
    }
}

// A view that begins later than it should, where FAKE_GPU_FAULT asks for it.
inline void misplace_pointers(const Kernel& kernel, Launch& launch) {
    for (size_t index = 0; index < kernel.sizes.size(); index++) {
        for (size_t num_bytes : {2, 4}) {
            std::string place = kernel.name + ("." + std::to_string(index)) + "+" + std::to_string(num_bytes);
            char* address = nullptr;
            if (kernel.is_pointer[index] && has_fault("argument", place)) {
                memcpy(&address, launch.arguments[index].data(), sizeof address);
                address += num_bytes;
                memcpy(launch.arguments[index].data(), &address, sizeof address);
            }
        }
    }
}

inline void poison_shared() {
    memset(__start_fake_gpu_shared, UNWRITTEN, size_t(__stop_fake_gpu_shared - __start_fake_gpu_shared));
}

// Runs all blocks, in a random order. The lock is held.
inline void run_kernel(const Kernel& kernel, Launch& launch) {
    struct Body {
        void (*run)(void**);
        void** arguments;
    };
    misplace_pointers(kernel, launch);
    check_pointers(kernel, launch);
    choose_mutation(kernel.name);
    std::vector<void*> arguments;
    for (auto& argument : launch.arguments) {
        arguments.push_back((void*)argument.data());
    }
    Body body{kernel.body, arguments.data()};
    block.kernel = kernel.name;
    block.grid = launch.grid;
    block.size = launch.size;
    block.num_threads = unsigned(launch.size.count());
    block.random.set_seed(world().random.next());
    block.arguments = &body;
    block.body = [](void* body) { ((Body*)body)->run(((Body*)body)->arguments); };
    std::vector<size_t> order(launch.grid.count());
    for (size_t index = 0; index < order.size(); index++) {
        order[index] = index;
    }
    for (size_t left = order.size(); left > 1; left--) {
        std::swap(order[left - 1], order[block.random.below(left)]);
    }
    bool is_first = true;
    for (size_t number : order) {
        // Before every eighth block: it takes as long as some blocks do.
        if (std::exchange(is_first, false) || block.random.below(8) == 0) {
            poison_shared();
        }
        block.index = {unsigned(number % launch.grid.x), unsigned(number / launch.grid.x % launch.grid.y),
                       unsigned(number / launch.grid.x / launch.grid.y)};
        is_checked = true;
        run_block();
        is_checked = false;
    }
    note_mutations(kernel.name);
}

}
