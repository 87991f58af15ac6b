// A fake NCCL on the streams of the fake driver: all-gathers, reduce-scatters, sends and receives, between threads
// and between processes of one host.
//
// A launch, which is one call or a group of them, begins when its stream has come to it and its device has room for its CTAs, and
// stays there until all its members have come (NCCL's documentation, "Using multiple NCCL communicators concurrently"): the
// strictest reading, by which nothing is ever buffered. With NCCL_LAUNCH_ORDER_IMPLICIT launches of a device begin in the order of
// their calls; by FAKE_GPU_NCCL_ORDER each only once the one before it has ended, as where CUDA is older than 12.3.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include "host.h"
#include "fake_gpu.h"
#include "meetings.h"
#include "times.h"
#include "windows.h"

#define EXPORTED extern "C" __attribute__((visibility("default")))

using namespace fake_gpu;

namespace {

// ncclResult_t
enum Result : int {
    SUCCESS = 0,
    UNHANDLED_CUDA_ERROR = 1,
    SYSTEM_ERROR = 2,
    INVALID_ARGUMENT = 4,
    INVALID_USAGE = 5,
    REMOTE_ERROR = 6,
    IN_PROGRESS = 7,
};

const int VERSION = 22809;
const int UNDEFINED = INT_MIN;
const int SPLIT_NOCOLOR = -1;
const int DEFAULT_CTAS = 32;
const unsigned CONFIG_MAGIC = 0xcafebeef;

// ncclConfig_t, as far as it is read.
struct Config {
    size_t size;
    unsigned magic, version;
    int blocking, cga_cluster_size, min_ctas, max_ctas;
    const char* net_name;
    int split_share;
};

struct UniqueId {
    char bytes[128];
};

struct Communicator {
    Board* board;
    int clique, rank, size, device;
    bool is_blocking;
    int num_ctas;

    Communicator(Board* board, int clique, int rank, int size, int device, bool is_blocking, int num_ctas)
        : board(board), clique(clique), rank(rank), size(size), device(device), is_blocking(is_blocking),
          num_ctas(num_ctas) {}

    // The one stream that it is used on.
    void* stream = nullptr;
    uint64_t num_splits = 0, num_collectives = 0;
    // What is gathered over one that carries parts of sums is the rest of a sum, which all members get.
    bool carries_sums = false;
    // To and from each other member, which may be this one itself.
    std::map<int, uint64_t> num_sends, num_receives;
    // Launches that are not over.
    std::atomic<int> num_launched = 0;
    std::atomic<bool> is_aborted = false;
    std::atomic<Result> error = SUCCESS;
    // Where a split that is under way puts its communicator, and of which round it is.
    Communicator** split_into = nullptr;
    uint64_t split_round = 0;
    int split_ctas = 0;
    // A registration that is under way, where its window goes, and how many there were.
    Meeting* registration = nullptr;
    Window* registered = nullptr;
    void** window_into = nullptr;
    uint64_t num_registrations = 0;
};

using CommunicatorPointer = std::shared_ptr<Communicator>;

// A call, as one member of it sees it.
struct Part {
    Call call;
    MeetingKey key;
    // This member's place in the meeting.
    int place;
    const char* from;
    char* to;
    Meeting* meeting = nullptr;
};

struct Launch {
    CommunicatorPointer of;
    std::vector<Part> parts;
    // The number of this launch among those of its device.
    uint64_t turn;
    // It never begins, and its communicator has an error.
    bool fails;
    bool has_begun = false;
};

using LaunchPointer = std::shared_ptr<Launch>;

struct ForgetsPoint {
    void operator()(void* point) const { fake_gpu_forget(point); }
};

// What this process has. Calls of the host hold the mutex; what runs on streams holds the driver's own lock.
struct Process {
    std::recursive_mutex mutex;
    std::map<std::string, Board*> boards;
    std::map<void*, CommunicatorPointer> communicators;
    uint64_t num_launches = 0;
    // By the host's numbers of devices: launches that were called for.
    uint64_t num_called[HOST_DEVICES_MAX] = {};

    // On streams: launches that have begun, those that have ended, and CTAs of those that have not.
    uint64_t num_begun[HOST_DEVICES_MAX] = {}, num_ended[HOST_DEVICES_MAX] = {};
    int num_ctas[HOST_DEVICES_MAX] = {};
    // By a meeting and a member's place: the point at which this member's launch began.
    std::map<std::pair<const Meeting*, int>, std::unique_ptr<void, ForgetsPoint>> begun;
};

Process& process() {
    static Process* process = new Process;
    return *process;
}

// Of a group that this thread has begun.
struct Group {
    int depth = 0;
    std::vector<std::pair<Communicator*, Part>> parts;
};

thread_local Group group;

size_t element_bytes(int type) {
    const size_t BYTES[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
    return type >= 0 && type < 10 ? BYTES[type] : 0;
}

size_t part_bytes(const Part& part) { return size_t(part.call.count) * element_bytes(part.call.type); }

// In which order launches of a device begin.
enum Order : uint64_t { ANY = 0, AS_CALLED = 1, ONE_BY_ONE = 2 };

bool has_turn(const Launch& launch) {
    const char* implicit = getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
    static const uint64_t order = setting("FAKE_GPU_NCCL_ORDER", implicit && *implicit == '1' ? AS_CALLED : ANY);
    int device = launch.of->device;
    switch (order) {
        case ANY: return true;
        case AS_CALLED: return process().num_begun[device] == launch.turn;
        default: return process().num_ended[device] == launch.turn;
    }
}

// The sum of all members' parts for one of them. The members are added round a ring, from a place and in a direction that
// depend on the size and on which stretch of the part it is: nobody can lean on an order.
void add_up(float* sums, const Board* board, const Meeting* meeting, int owner) {
    const size_t STRETCH = 64;
    size_t count = meeting->count;
    int size = meeting->num_members;
    auto value = [&](int member, size_t index) {
        auto* of_member = (const float*)((const char*)board + meeting->data[member]);
        return of_member[size_t(owner) * count + index];
    };
    for (size_t index = 0; index < count; index++) {
        size_t stretch = index / STRETCH;
        int step = (stretch + count) % 2 == 0 ? 1 : size - 1;
        int member = int((size_t(owner) + 1 + stretch) % size_t(size));
        float sum = value(member, index);
        for (int left = size - 1; left > 0; left--) {
            member = (member + step) % size;
            sum += value(member, index);
        }
        sums[index] = sum;
    }
}

// The sums of all members' words, which no order changes.
void add_up_words(uint64_t* sums, Board* board, const Meeting* meeting) {
    memset(sums, 0, meeting->count * sizeof *sums);
    for (int member = 0; member < meeting->num_members; member++) {
        auto* words = at<uint64_t>(board, meeting->data[member]);
        for (size_t index = 0; index < meeting->count; index++) {
            sums[index] += words[index];
        }
    }
}

fake_gpu_matrix row(const void* address, size_t num_bytes) { return {address, num_bytes, 1, num_bytes}; }

// What a member sends of its memory, and where it gets something: addresses and bytes.
struct Places {
    const char* from;
    size_t from_bytes;
    char* to;
    size_t to_bytes;
};

Places places_of(const Part& part) {
    size_t bytes = part_bytes(part);
    size_t all_bytes = bytes * size_t(part.meeting->num_members);
    switch (part.call.kind) {
        case Kind::AllGather: return {part.from, bytes, part.to, all_bytes};
        case Kind::ReduceScatter: return {part.from, all_bytes, part.to, bytes};
        case Kind::AllReduce: return {part.from, bytes, part.to, bytes};
        default: return part.place == 0 ? Places{part.from, bytes, nullptr, 0} : Places{nullptr, 0, part.to, bytes};
    }
}

// What is written is of no use until the launch is over; but what a member sends of the same memory stays.
void spoil(const Part& part, const Places& places) {
    for (size_t index = 0; index < places.to_bytes; index++) {
        char* byte = places.to + index;
        if (part.call.kind == Kind::Transfer || byte < places.from || byte >= places.from + places.from_bytes) {
            *byte = char(0xff);
        }
    }
}

bool may_begin(const Launch& launch) {
    if (launch.of->is_aborted) {
        return true;
    }
    static const int room = int(setting("FAKE_GPU_NCCL_ROOM", NUM_MULTIPROCESSORS));
    bool has_room = process().num_ctas[launch.of->device] + launch.of->num_ctas <= room;
    return !launch.fails && has_turn(launch) && has_room;
}

void begin_launch(Launch& launch) {
    process().num_begun[launch.of->device]++;
    if (launch.of->is_aborted) {
        return;
    }
    process().num_ctas[launch.of->device] += launch.of->num_ctas;
    launch.has_begun = true;
    BoardLock lock(launch.of->board);
    for (Part& part : launch.parts) {
        part.meeting = meet(launch.of->board, launch.of->clique, part.key, part.call);
        Places places = places_of(part);
        const char* what = name_of(part.call.kind);
        fake_gpu_reads(row(places.from, places.from_bytes), what);
        arrive(launch.of->board, part.meeting, part.place, places.from, places.from_bytes, fake_gpu_free_ns());
        fake_gpu_writes(row(places.to, places.to_bytes), what);
        spoil(part, places);
        process().begun[{part.meeting, part.place}].reset(fake_gpu_point());
    }
}

bool may_end(const Launch& launch) {
    if (launch.of->is_aborted) {
        return true;
    }
    BoardLock lock(launch.of->board);
    return std::all_of(launch.parts.begin(), launch.parts.end(),
                       [](auto& part) { return part.meeting->is_complete(); });
}

// A member gets what the others have brought, and so comes after them.
void receive(const Launch& launch, const Part& part) {
    Board* board = launch.of->board;
    Meeting* meeting = part.meeting;
    Places places = places_of(part);
    fake_gpu_writes(row(places.to, places.to_bytes), name_of(part.call.kind));
    size_t bytes = part_bytes(part);
    switch (part.call.kind) {
        case Kind::AllGather:
            for (int member = 0; member < meeting->num_members; member++) {
                memcpy(places.to + size_t(member) * bytes, at<char>(board, meeting->data[member]), bytes);
            }
            break;
        case Kind::ReduceScatter: add_up((float*)places.to, board, meeting, part.place); break;
        case Kind::AllReduce: add_up_words((uint64_t*)places.to, board, meeting); break;
        case Kind::Transfer: memcpy(places.to, at<char>(board, meeting->data[0]), bytes); break;
        case Kind::Registration: break;
    }
}

// A launch lasts from when all members have come, for what one member gets from the others of all parts together.
void spend_time(const Launch& launch) {
    uint64_t ready_ns = 0, num_bytes = 0;
    for (const Part& part : launch.parts) {
        ready_ns = std::max(ready_ns, part.meeting->ready_ns);
        // Of a transfer each end is as long under way; of what goes both ways at once, one counts.
        uint64_t num_others = part.call.kind == Kind::Transfer ? 1 : uint64_t(part.meeting->num_members - 1);
        bool counts = launch.parts.size() == 1 || part.place == 1;
        num_bytes += counts ? num_others * part_bytes(part) : 0;
    }
    fake_gpu_spend(ready_ns, LINK_NS * (1 + num_bytes / LINK_BYTES), name_of(launch.parts[0].call.kind));
}

void end_launch(Launch& launch) {
    launch.of->num_launched--;
    process().num_ended[launch.of->device]++;
    if (launch.has_begun) {
        process().num_ctas[launch.of->device] -= launch.of->num_ctas;
    }
    if (launch.of->is_aborted) {
        return;
    }
    BoardLock lock(launch.of->board);
    spend_time(launch);
    for (Part& part : launch.parts) {
        bool only_sends = part.call.kind == Kind::Transfer && part.place == 0;
        for (int place = 0; place < part.meeting->num_members && !only_sends; place++) {
            auto found = process().begun.find({part.meeting, place});
            if (found != process().begun.end()) {
                fake_gpu_come_after(found->second.get());
            }
        }
        if (!only_sends && part_bytes(part) != 0) {
            receive(launch, part);
        }
        if (part.meeting->num_done + 1 == part.meeting->num_members) {
            for (int place = 0; place < part.meeting->num_members; place++) {
                process().begun.erase({part.meeting, place});
            }
        }
        leave(launch.of->board, launch.of->clique, part.meeting);
    }
}

// Puts a launch on its stream, as two operations: its beginning, and its end.
Result put(const LaunchPointer& launch, void* stream) {
    launch->of->num_launched++;
    auto may_begin_now = [](void* argument) -> int { return may_begin(**(LaunchPointer*)argument); };
    auto begin_now = [](void* argument) {
        std::unique_ptr<LaunchPointer> launch((LaunchPointer*)argument);
        begin_launch(**launch);
    };
    auto may_end_now = [](void* argument) -> int { return may_end(**(LaunchPointer*)argument); };
    auto end_now = [](void* argument) {
        std::unique_ptr<LaunchPointer> launch((LaunchPointer*)argument);
        end_launch(**launch);
    };
    const char* what = launch->parts.size() == 1 ? name_of(launch->parts[0].call.kind) : "a group of transfers";
    bool is_put = fake_gpu_push_when(stream, what, may_begin_now, begin_now, new LaunchPointer(launch)) == 0 &&
                  fake_gpu_push_when(stream, what, may_end_now, end_now, new LaunchPointer(launch)) == 0;
    return is_put ? SUCCESS : UNHANDLED_CUDA_ERROR;
}

// Whether the operation that is asked for now fails.
bool is_next_to_fail() {
    static const uint64_t fail_at = setting("FAKE_GPU_NCCL_FAIL_AT", 0);
    static const char* fail_when = getenv("FAKE_GPU_NCCL_FAIL_WHEN");
    if (fail_when && access(fail_when, F_OK) == 0) {
        fail_when = nullptr;
        return true;
    }
    return ++process().num_launches == fail_at;
}

// The parts of one communicator become a launch.
Result launch(Communicator* communicator, std::vector<Part> parts) {
    const CommunicatorPointer& of = process().communicators.at(communicator);
    bool fails = is_next_to_fail();
    if (fails) {
        of->error = REMOTE_ERROR;
    }
    auto made = std::make_shared<Launch>(Launch{of, std::move(parts), process().num_called[of->device]++, fails});
    return put(made, of->stream);
}

Result end_group() {
    std::vector<std::pair<Communicator*, std::vector<Part>>> of_communicators;
    for (auto& [communicator, part] : group.parts) {
        auto is_of = [&, of = communicator](auto& found) { return found.first == of; };
        auto found = std::find_if(of_communicators.begin(), of_communicators.end(), is_of);
        if (found == of_communicators.end()) {
            of_communicators.push_back({communicator, {}});
            found = std::prev(of_communicators.end());
        }
        found->second.push_back(part);
    }
    group.parts.clear();
    for (auto& [communicator, parts] : of_communicators) {
        if (Result error = launch(communicator, std::move(parts))) {
            return error;
        }
    }
    return SUCCESS;
}

bool is_known(const Communicator* communicator) {
    return process().communicators.count((void*)communicator) != 0;
}

Result state_of(Communicator* communicator);

// A call of the host on a communicator.
Result call(Communicator* communicator, void* stream, const Part& part) {
    if (fake_gpu_fails()) {
        return UNHANDLED_CUDA_ERROR;
    }
    std::lock_guard lock(process().mutex);
    if (!is_known(communicator) || element_bytes(part.call.type) == 0) {
        return INVALID_ARGUMENT;
    }
    if (Result state = state_of(communicator)) {
        return state == IN_PROGRESS ? INVALID_USAGE : state;
    }
    if (communicator->stream && communicator->stream != stream) {
        stop("NCCL: a communicator is used on two streams, whose operations it does not order");
    }
    communicator->stream = stream;
    group.parts.push_back({communicator, part});
    return group.depth == 0 ? end_group() : SUCCESS;
}

// The board's lock is held.
Result finish_registration(Communicator* communicator) {
    if (!communicator->registration->is_complete()) {
        return IN_PROGRESS;
    }
    leave(communicator->board, communicator->clique, communicator->registration);
    communicator->registration = nullptr;
    windows().open.insert(communicator->registered);
    *communicator->window_into = communicator->registered;
    return SUCCESS;
}

// What all calls together of a rank say of its clique: whether it is complete.
Result state_of(Communicator* communicator) {
    if (communicator->error != SUCCESS) {
        return communicator->error;
    }
    BoardLock lock(communicator->board);
    Clique& clique = communicator->board->cliques[communicator->clique];
    if (clique.num_joined < clique.size) {
        return IN_PROGRESS;
    }
    for (int one = 0; one < clique.size; one++) {
        if (std::count(clique.devices, clique.devices + clique.size, clique.devices[one]) > 1) {
            fprintf(stderr, "fake GPU: NCCL: two ranks are on one device, %d\n", clique.devices[one]);
            return communicator->error = INVALID_USAGE;
        }
    }
    if (communicator->registration) {
        return finish_registration(communicator);
    }
    if (!communicator->split_into) {
        return SUCCESS;
    }
    Split* under_way = split(communicator->board, communicator->clique, communicator->split_round);
    if (under_way->num_called < clique.size) {
        return IN_PROGRESS;
    }
    int made = under_way->cliques[communicator->rank];
    Communicator** into = std::exchange(communicator->split_into, nullptr);
    if (made < 0) {
        *into = nullptr;
        return SUCCESS;
    }
    int size = communicator->board->cliques[made].size;
    auto child = std::make_shared<Communicator>(
        communicator->board, made, under_way->ranks[communicator->rank], size, communicator->device,
        communicator->is_blocking, communicator->split_ctas
    );
    process().communicators[child.get()] = child;
    *into = child.get();
    return SUCCESS;
}

// Waits for the others, who have some time.
Result wait_for_others(Communicator* communicator) {
    auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (true) {
        {
            std::lock_guard lock(process().mutex);
            Result state = state_of(communicator);
            if (state != IN_PROGRESS) {
                return state;
            }
        }
        if (std::chrono::steady_clock::now() > end) {
            return SYSTEM_ERROR;
        }
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

Result check(const Config* config) {
    if (!config) {
        return SUCCESS;
    }
    bool is_config = config->magic == CONFIG_MAGIC && config->size >= sizeof(Config);
    return is_config ? SUCCESS : INVALID_ARGUMENT;
}

int ctas_of(const Config* config, int otherwise) {
    return config && config->max_ctas != UNDEFINED ? config->max_ctas : otherwise;
}

// The board that belongs to an id, which says the process that made it and the file's number there; null where it has ended.
Board* board_of(const UniqueId& id) {
    int process_id, number;
    if (sscanf(id.bytes, "%d-%d-", &process_id, &number) != 2) {
        return nullptr;
    }
    std::string path = "/proc/" + std::to_string(process_id) + "/fd/" + std::to_string(number);
    int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
    Board* board = map_board(file, false);
    if (file >= 0) {
        close(file);
    }
    return board;
}

}

EXPORTED int ncclGetVersion(int* version) {
    *version = VERSION;
    return SUCCESS;
}

EXPORTED const char* ncclGetErrorString(int result) {
    switch (result) {
        case SUCCESS: return "no error";
        case UNHANDLED_CUDA_ERROR: return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
        case SYSTEM_ERROR: return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
        case INVALID_ARGUMENT: return "invalid argument (run with NCCL_DEBUG=WARN for details)";
        case INVALID_USAGE: return "invalid usage (run with NCCL_DEBUG=WARN for details)";
        case REMOTE_ERROR: return "remote process exited or there was a network error";
        case IN_PROGRESS: return "NCCL operation in progress";
        default: return "unknown result code";
    }
}

EXPORTED const char* ncclGetLastError(Communicator*) { return ""; }

// The board is made here.
EXPORTED int ncclGetUniqueId(UniqueId* id) {
    if (fake_gpu_fails()) {
        return UNHANDLED_CUDA_ERROR;
    }
    std::random_device draw;
    int file = new_board_file();
    *id = {};
    snprintf(id->bytes, sizeof id->bytes, "%d-%d-%08x%08x", int(getpid()), file, draw(), draw());
    std::lock_guard lock(process().mutex);
    Board* board = map_board(file, true);
    process().boards[id->bytes] = board;
    return board ? SUCCESS : SYSTEM_ERROR;
}

EXPORTED int ncclCommInitRankConfig(Communicator** out, int size, UniqueId id, int rank, Config* config) {
    *out = nullptr;
    if (fake_gpu_fails()) {
        return UNHANDLED_CUDA_ERROR;
    }
    int device = fake_gpu_current_device();
    if (size < 1 || size > MEMBERS_MAX || rank < 0 || rank >= size || device < 0 || check(config) != SUCCESS) {
        return INVALID_ARGUMENT;
    }
    std::unique_lock lock(process().mutex);
    Board*& board = process().boards[id.bytes];
    if (!board && !(board = board_of(id))) {
        return SYSTEM_ERROR;
    }
    {
        BoardLock board_lock(board);
        if (board->num_cliques == 0) {
            add_clique(board, size);
        }
        Clique& clique = board->cliques[0];
        if (clique.size != size || clique.devices[rank] != -1) {
            return INVALID_USAGE;
        }
        clique.devices[rank] = device;
        clique.num_joined++;
    }
    bool is_blocking = !config || config->blocking != 0;
    auto made = std::make_shared<Communicator>(
        board, 0, rank, size, device, is_blocking, ctas_of(config, DEFAULT_CTAS)
    );
    process().communicators[made.get()] = made;
    *out = made.get();
    lock.unlock();
    return is_blocking ? wait_for_others(made.get()) : IN_PROGRESS;
}

// `out` is written when all members have called, and until then belongs to the split.
EXPORTED int ncclCommSplit(Communicator* parent, int color, int key, Communicator** out, Config* config) {
    *out = nullptr;
    if (fake_gpu_fails()) {
        return UNHANDLED_CUDA_ERROR;
    }
    std::unique_lock lock(process().mutex);
    if (!is_known(parent) || check(config) != SUCCESS || (color < 0 && color != SPLIT_NOCOLOR)) {
        return INVALID_ARGUMENT;
    }
    if (Result state = state_of(parent)) {
        return state == IN_PROGRESS ? INVALID_USAGE : state;
    }
    parent->split_into = out;
    parent->split_round = parent->num_splits++;
    parent->split_ctas = ctas_of(config, parent->num_ctas);
    {
        BoardLock board_lock(parent->board);
        Split* made = split(parent->board, parent->clique, parent->split_round);
        made->colors[parent->rank] = color;
        made->keys[parent->rank] = key;
        const Clique& clique = parent->board->cliques[parent->clique];
        if (++made->num_called == clique.size) {
            carry_out(parent->board, made, clique);
        }
    }
    lock.unlock();
    return parent->is_blocking ? wait_for_others(parent) : IN_PROGRESS;
}

EXPORTED int ncclCommGetAsyncError(Communicator* communicator, int* error) {
    std::lock_guard lock(process().mutex);
    if (!is_known(communicator)) {
        return INVALID_ARGUMENT;
    }
    *error = state_of(communicator);
    return SUCCESS;
}

// What it has launched ends at once, and nobody gets anything of it; others wait for this rank in vain.
EXPORTED int ncclCommAbort(Communicator* communicator) {
    std::lock_guard lock(process().mutex);
    if (!is_known(communicator)) {
        return INVALID_ARGUMENT;
    }
    communicator->is_aborted = true;
    std::erase_if(windows().open, [&](const Window* window) { return window->communicator == communicator; });
    process().communicators.erase(communicator);
    return SUCCESS;
}

EXPORTED int ncclCommFinalize(Communicator* communicator) {
    std::lock_guard lock(process().mutex);
    return is_known(communicator) ? SUCCESS : INVALID_ARGUMENT;
}

EXPORTED int ncclCommDestroy(Communicator* communicator) {
    std::lock_guard lock(process().mutex);
    if (!is_known(communicator)) {
        return INVALID_ARGUMENT;
    }
    if (communicator->num_launched != 0) {
        stop("NCCL: a communicator is destroyed with %d launches under way", communicator->num_launched.load());
    }
    for (const Window* window : windows().open) {
        if (window->communicator == communicator) {
            stop("NCCL: a communicator is destroyed while it has a window");
        }
    }
    process().communicators.erase(communicator);
    return SUCCESS;
}

EXPORTED int ncclMemAlloc(void** address, size_t num_bytes) {
    if (fake_gpu_fails()) {
        return UNHANDLED_CUDA_ERROR;
    }
    std::lock_guard lock(process().mutex);
    if (cuMemAlloc_v2(address, (num_bytes + GRANULARITY - 1) / GRANULARITY * GRANULARITY) != 0) {
        return UNHANDLED_CUDA_ERROR;
    }
    windows().allocated.insert(*address);
    return SUCCESS;
}

EXPORTED int ncclMemFree(void* address) {
    std::lock_guard lock(process().mutex);
    for (const Window* window : windows().open) {
        if (window->address == address) {
            stop("NCCL: memory of a window is freed");
        }
    }
    bool is_own = windows().allocated.erase(address) == 1;
    return is_own && cuMemFree_v2(address) == 0 ? SUCCESS : INVALID_ARGUMENT;
}

// `window` is written when all members have called.
EXPORTED int ncclCommWindowRegister(Communicator* of, void* address, size_t num_bytes, void** window, int) {
    *window = nullptr;
    if (fake_gpu_fails()) {
        return UNHANDLED_CUDA_ERROR;
    }
    {
        std::lock_guard lock(process().mutex);
        if (!is_known(of) || windows().allocated.count(address) == 0) {
            return INVALID_ARGUMENT;
        }
        if (Result state = state_of(of)) {
            return state == IN_PROGRESS ? INVALID_USAGE : state;
        }
        const int BYTES = 1;
        BoardLock board_lock(of->board);
        MeetingKey key{false, -1, -1, of->num_registrations++};
        of->registration = meet(of->board, of->clique, key, {Kind::Registration, num_bytes, BYTES});
        arrive(of->board, of->registration, of->rank, nullptr, 0, 0);
        of->registered = new Window{of, (const char*)address, num_bytes};
        of->window_into = window;
    }
    return of->is_blocking ? wait_for_others(of) : IN_PROGRESS;
}

EXPORTED int ncclCommWindowDeregister(Communicator* of, void* window) {
    std::lock_guard lock(process().mutex);
    if (!is_known(of) || windows().open.erase((Window*)window) == 0) {
        return INVALID_ARGUMENT;
    }
    delete (Window*)window;
    return SUCCESS;
}

EXPORTED int ncclGroupStart() {
    group.depth++;
    return SUCCESS;
}

EXPORTED int ncclGroupEnd() {
    if (group.depth == 0) {
        return INVALID_USAGE;
    }
    std::lock_guard lock(process().mutex);
    return --group.depth == 0 ? end_group() : SUCCESS;
}

static Result collective(Kind kind, const void* from, void* to, size_t count, int type, Communicator* of, void* stream) {
    std::lock_guard lock(process().mutex);
    if (!is_known(of)) {
        return INVALID_ARGUMENT;
    }
    of->carries_sums |= kind != Kind::AllGather;
    if (kind == Kind::AllGather && !of->carries_sums) {
        check_window(of, to, count, count * size_t(of->size) * element_bytes(type));
    }
    MeetingKey key{false, 0, 0, of->num_collectives++};
    return call(of, stream, {{kind, count, type}, key, of->rank, (const char*)from, (char*)to});
}

EXPORTED int ncclAllGather(const void* from, void* to, size_t count, int type, Communicator* of, void* stream) {
    return collective(Kind::AllGather, from, to, count, type, of, stream);
}

EXPORTED int ncclReduceScatter(
    const void* from, void* to, size_t count, int type, int operation, Communicator* of, void* stream
) {
    const int SUM = 0, FLOAT32 = 7;
    if (operation != SUM || type != FLOAT32) {
        return INVALID_ARGUMENT;
    }
    return collective(Kind::ReduceScatter, from, to, count, type, of, stream);
}

EXPORTED int ncclAllReduce(
    const void* from, void* to, size_t count, int type, int operation, Communicator* of, void* stream
) {
    const int SUM = 0, UINT64 = 5;
    if (operation != SUM || type != UINT64) {
        return INVALID_ARGUMENT;
    }
    return collective(Kind::AllReduce, from, to, count, type, of, stream);
}

static Result transfer(bool sends, void* at, size_t count, int type, int peer, Communicator* of, void* stream) {
    std::lock_guard lock(process().mutex);
    if (!is_known(of) || peer < 0 || peer >= of->size) {
        return INVALID_ARGUMENT;
    }
    of->carries_sums = true;
    int from = sends ? of->rank : peer, to = sends ? peer : of->rank;
    MeetingKey key{true, from, to, (sends ? of->num_sends : of->num_receives)[peer]++};
    const char* read = sends ? (const char*)at : nullptr;
    char* written = sends ? nullptr : (char*)at;
    return call(of, stream, {{Kind::Transfer, count, type}, key, sends ? 0 : 1, read, written});
}

EXPORTED int ncclSend(const void* from, size_t count, int type, int peer, Communicator* of, void* stream) {
    return transfer(true, (void*)from, count, type, peer, of, stream);
}

EXPORTED int ncclRecv(void* to, size_t count, int type, int peer, Communicator* of, void* stream) {
    return transfer(false, to, count, type, peer, of, stream);
}
