// The host whose devices processes share: which of them this one sees, and how much of their memory is in use.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "settings.h"

namespace fake_gpu {

inline const int HOST_DEVICES_MAX = 16;
// Of each device, as an H100 has.
inline const int NUM_MULTIPROCESSORS = 132;

// The host's numbers of the devices that this process sees, in the order of `CUDA_VISIBLE_DEVICES`. A number
// that is none ends the list (CUDA C++ programming guide, section on environment variables).
inline std::vector<int> visible_devices() {
    int num_devices = int(setting("FAKE_GPU_DEVICES", 1));
    if (num_devices > HOST_DEVICES_MAX) {
        stop("FAKE_GPU_DEVICES: at most %d", HOST_DEVICES_MAX);
    }
    std::vector<int> visible;
    const char* list = getenv("CUDA_VISIBLE_DEVICES");
    if (!list) {
        for (int device = 0; device < num_devices; device++) {
            visible.push_back(device);
        }
        return visible;
    }
    while (true) {
        char* end;
        long device = strtol(list, &end, 10);
        if (end == list || device < 0 || device >= num_devices) {
            return visible;
        }
        visible.push_back(int(device));
        if (*end != ',') {
            return visible;
        }
        list = end + 1;
    }
}

// What a process has allocated on each device of the host.
struct HostProcess {
    // 0 where there is none.
    std::atomic<pid_t> id;
    std::atomic<uint64_t> used_bytes[HOST_DEVICES_MAX];
};

// All processes that were given the same file, or this one alone.
struct Host {
    static const int PROCESSES_MAX = 64;
    HostProcess* const processes = shared();
    HostProcess* const own = claimed();

    static HostProcess* shared() {
        const char* path = getenv("FAKE_GPU_HOST");
        size_t num_bytes = PROCESSES_MAX * sizeof(HostProcess);
        int file = path && *path ? open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
        if (path && *path && (file < 0 || ftruncate(file, off_t(num_bytes)) != 0)) {
            stop("FAKE_GPU_HOST: %s cannot be written", path);
        }
        int flags = file < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED;
        void* address = mmap(nullptr, num_bytes, PROT_READ | PROT_WRITE, flags, file, 0);
        if (file >= 0) {
            close(file);
        }
        if (address == MAP_FAILED) {
            stop("FAKE_GPU_HOST: the file cannot be mapped");
        }
        return (HostProcess*)address;
    }

    // A process that has ended has freed its memory, however it ended.
    static bool is_alive(pid_t id) { return id != 0 && (kill(id, 0) == 0 || errno != ESRCH); }

    HostProcess* claimed() {
        for (int index = 0; index < PROCESSES_MAX; index++) {
            pid_t id = processes[index].id;
            if (!is_alive(id) && processes[index].id.compare_exchange_strong(id, getpid())) {
                for (auto& bytes : processes[index].used_bytes) {
                    bytes = 0;
                }
                return &processes[index];
            }
        }
        stop("more than %d processes on one fake host", PROCESSES_MAX);
    }

    uint64_t used_bytes(int device) const {
        uint64_t sum = 0;
        for (int index = 0; index < PROCESSES_MAX; index++) {
            sum += is_alive(processes[index].id) ? processes[index].used_bytes[device].load() : 0;
        }
        return sum;
    }
};

inline Host& host() {
    static Host* host = new Host;
    return *host;
}

}
