// Programs that misuse NCCL, and beside each the same without the mistake: `tests/cuda/nccl_misuse.rs` says what becomes of them.
//
// Two threads are ranks on a device each, with two communicators between them and a stream for each. Each calls for operations, waits for
// its streams and says whether all of them came to their end. `nccl_misuse PROGRAM CTAS` has so many CTAs for an operation.

#include <barrier>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <thread>

struct UniqueId {
    char bytes[128];
};

// ncclConfig_t, and INT_MIN for what is left open.
struct Config {
    size_t size = sizeof(Config);
    unsigned magic = 0xcafebeef, version = 22600;
    int blocking = 1, cga_cluster_size = -2147483647 - 1, min_ctas = 1, max_ctas;
    const char* net_name = nullptr;
    int split_share = 0;
};

extern "C" {
int cuInit(unsigned flags);
int cuDevicePrimaryCtxRetain(void** context, int device);
int cuCtxSetCurrent(void* context);
int cuMemAlloc_v2(void** address, size_t num_bytes);
int cuStreamCreate(void** stream, unsigned flags);
int cuStreamQuery(void* stream);
int cuStreamSynchronize(void* stream);
int cuStreamWaitEvent(void* stream, void* event, unsigned flags);
int cuEventCreate(void** event, unsigned flags);
int cuEventRecord(void* event, void* stream);
int ncclGetUniqueId(UniqueId* id);
int ncclCommInitRankConfig(void** communicator, int size, UniqueId id, int rank, Config* config);
int ncclAllGather(const void* from, void* to, size_t count, int type, void* communicator, void* stream);
int ncclReduceScatter(
    const void* from, void* to, size_t count, int type, int operation, void* communicator, void* stream
);
int ncclSend(const void* from, size_t count, int type, int peer, void* communicator, void* stream);
int ncclRecv(void* to, size_t count, int type, int peer, void* communicator, void* stream);
}

namespace {

const int TIMED_OUT = 702; // CUDA_ERROR_LAUNCH_TIMEOUT
const int FLOAT32 = 7;
const int SUM = 0;
const size_t COUNT = 4;

[[noreturn]] void give_up(const char* reason) {
    fprintf(stderr, "nccl_misuse: %s\n", reason);
    exit(2);
}

void must(int error) {
    if (error != 0) {
        give_up("a call has failed that should not");
    }
}

struct Rank {
    int number;
    std::barrier<>& both;
    void* communicators[2];
    void* streams[2];

    int other() const { return 1 - number; }

    // A device's memory is the host's on the fake GPU.
    static float* zeros(size_t count) {
        void* address;
        must(cuMemAlloc_v2(&address, count * sizeof(float)));
        memset(address, 0, count * sizeof(float));
        return (float*)address;
    }

    // Returns what it writes.
    float* all_gather(int communicator, int stream, size_t count = COUNT) {
        float* to = zeros(2 * count);
        must(ncclAllGather(zeros(count), to, count, FLOAT32, communicators[communicator], streams[stream]));
        return to;
    }

    void reduce_scatter(int communicator) {
        float *from = zeros(2 * COUNT), *to = zeros(COUNT);
        must(ncclReduceScatter(
            from, to, COUNT, FLOAT32, SUM, communicators[communicator], streams[communicator]
        ));
    }

    void send(int communicator) {
        must(ncclSend(zeros(COUNT), COUNT, FLOAT32, other(), communicators[communicator], streams[communicator]));
    }

    void receive(int communicator) {
        must(ncclRecv(zeros(COUNT), COUNT, FLOAT32, other(), communicators[communicator], streams[communicator]));
    }

    // An operation that has begun has spoilt what it writes, until it ends.
    void wait_until_begun(const float* written, int stream) {
        for (int asked = 0; asked < 1'000'000; asked++) {
            bool has_ended = cuStreamQuery(streams[stream]) == 0;
            if (has_ended || *(const volatile unsigned char*)written == 0xff) {
                return;
            }
        }
        give_up("an operation does not begin");
    }
};

// An operation of each communicator. The first has begun before anybody calls for the second.
void one_after_the_other(Rank& rank, int first) {
    float* written = rank.all_gather(first, first);
    rank.wait_until_begun(written, first);
    rank.both.arrive_and_wait();
    rank.all_gather(1 - first, 1 - first);
}

void crossed(Rank& rank) { one_after_the_other(rank, rank.number); }

void in_order(Rank& rank) { one_after_the_other(rank, 0); }

void on_two_streams(Rank& rank) {
    rank.all_gather(0, 0);
    rank.all_gather(0, 1);
}

// Rank 1 has left out the first operation.
void behind_by_count(Rank& rank) {
    if (rank.number == 0) {
        rank.all_gather(0, 0, COUNT);
    }
    rank.all_gather(0, 0, 2 * COUNT);
}

void behind_by_kind(Rank& rank) {
    if (rank.number == 0) {
        rank.all_gather(0, 0);
    }
    rank.reduce_scatter(0);
}

void behind_alike(Rank& rank) {
    for (int left = rank.number == 0 ? 3 : 2; left > 0; left--) {
        rank.all_gather(0, 0);
    }
}

// By communicator 0 rank 0 gets messages, which rank 1 sends once it has had one by communicator 1.
void receive_early(Rank& rank, int num_early) {
    if (rank.number == 0) {
        for (int index = 0; index < num_early; index++) {
            rank.receive(0);
        }
        rank.send(1);
        return;
    }
    rank.receive(1);
    void* received;
    must(cuEventCreate(&received, 2));
    must(cuEventRecord(received, rank.streams[1]));
    must(cuStreamWaitEvent(rank.streams[0], received, 0));
    for (int index = 0; index < num_early; index++) {
        rank.send(0);
    }
}

void one_early_receive(Rank& rank) { receive_early(rank, 1); }

void two_early_receives(Rank& rank) { receive_early(rank, 2); }

const std::map<std::string, void (*)(Rank&)> PROGRAMS = {
    {"crossed", crossed},
    {"in-order", in_order},
    {"on-two-streams", on_two_streams},
    {"behind-by-count", behind_by_count},
    {"behind-by-kind", behind_by_kind},
    {"behind-alike", behind_alike},
    {"one-early-receive", one_early_receive},
    {"two-early-receives", two_early_receives},
};

void run_rank(Rank rank, void (*program)(Rank&), const UniqueId* ids, int num_ctas) {
    void* context;
    must(cuDevicePrimaryCtxRetain(&context, rank.number));
    must(cuCtxSetCurrent(context));
    for (int index = 0; index < 2; index++) {
        Config config{.max_ctas = num_ctas};
        must(ncclCommInitRankConfig(&rank.communicators[index], 2, ids[index], rank.number, &config));
        must(cuStreamCreate(&rank.streams[index], 1));
    }
    program(rank);
    bool has_ended = true;
    for (void* stream : rank.streams) {
        int result = has_ended ? cuStreamSynchronize(stream) : 0;
        has_ended = has_ended && result == 0;
        if (result != 0 && result != TIMED_OUT) {
            give_up("a wait has failed");
        }
    }
    printf("rank %d: %s\n", rank.number, has_ended ? "ended" : "timed out");
}

}

int main(int num_arguments, char** arguments) {
    auto found = num_arguments == 3 ? PROGRAMS.find(arguments[1]) : PROGRAMS.end();
    if (found == PROGRAMS.end()) {
        give_up("PROGRAM CTAS");
    }
    must(cuInit(0));
    UniqueId ids[2];
    must(ncclGetUniqueId(&ids[0]));
    must(ncclGetUniqueId(&ids[1]));
    std::barrier<> both(2);
    auto run = [&](int number) { run_rank({number, both, {}, {}}, found->second, ids, atoi(arguments[2])); };
    std::thread other(run, 1);
    run(0);
    other.join();
}
