// What the members of a communicator share, be they threads or processes: a file of the host that all of them map, with a lock,
// memory, the communicators that were split from the first, and the operations whose members meet.
#pragma once

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

#include "settings.h"

namespace fake_gpu {

inline const size_t BOARD_BYTES = size_t(1) << 32;
inline const int MEMBERS_MAX = 64;
inline const int CLIQUES_MAX = 1024;

// A place on a board, the same in all processes; 0 is none.
using Offset = uint64_t;

// Ranks that communicate: those of the first communicator, or of one that was split from another.
struct Clique {
    int size, num_joined;
    // The host's numbers of their devices, -1 before a member has joined.
    int devices[MEMBERS_MAX];
    // A list of those that are not over.
    Offset splits, meetings;
};

// A call of ncclCommSplit, which all members of a clique make.
struct Split {
    Offset next;
    uint64_t round;
    int num_called;
    int colors[MEMBERS_MAX], keys[MEMBERS_MAX];
    // Once all have called: the members' new cliques, -1 for none, and their ranks there.
    int cliques[MEMBERS_MAX], ranks[MEMBERS_MAX];
};

struct Board {
    pthread_mutex_t mutex;
    // Set by whoever makes the board, last.
    bool is_made;
    uint64_t num_used_bytes;
    // Of pieces of 2^index bytes that are free.
    Offset free_pieces[48];
    int num_cliques;
    Clique cliques[CLIQUES_MAX];
};

template <class T>
T* at(Board* board, Offset offset) {
    return offset == 0 ? nullptr : (T*)((char*)board + offset);
}

// Held beside a board's lock by threads of this process.
inline std::mutex& board_users() {
    static std::mutex* users = new std::mutex;
    return *users;
}

// Once a file is there that a test names, the process stops by SIGSTOP for good, and with no board's lock, for which others would wait for ever.
inline void freeze_if_asked() {
    static const char* when = getenv("FAKE_GPU_NCCL_FREEZE_WHEN");
    if (when && access(when, F_OK) == 0) {
        std::lock_guard lock(board_users());
        while (true) {
            // It may return before the signal has come.
            kill(getpid(), SIGSTOP);
        }
    }
}

// Holds the board's lock. A member that has died with it has left the board as it was between two steps.
class BoardLock {
    Board* board;
    std::unique_lock<std::mutex> user;

public:
    explicit BoardLock(Board* of) : board(of) {
        freeze_if_asked();
        user = std::unique_lock(board_users());
        if (pthread_mutex_lock(&board->mutex) == EOWNERDEAD) {
            pthread_mutex_consistent(&board->mutex);
        }
    }
    ~BoardLock() { pthread_mutex_unlock(&board->mutex); }
    BoardLock(const BoardLock&) = delete;
};

// Memory of zeros on the board. The lock is held.
inline Offset take_piece(Board* board, size_t num_bytes) {
    size_t size = std::bit_ceil(std::max(num_bytes, size_t(64)));
    Offset& first = board->free_pieces[std::countr_zero(size)];
    Offset piece = first;
    if (piece != 0) {
        first = *at<Offset>(board, piece);
    } else {
        if (board->num_used_bytes + size > BOARD_BYTES) {
            stop("NCCL: more than %zu bytes are under way", BOARD_BYTES);
        }
        piece = board->num_used_bytes;
        board->num_used_bytes += size;
    }
    memset(at<char>(board, piece), 0, num_bytes);
    return piece;
}

inline void give_piece(Board* board, Offset piece, size_t num_bytes) {
    Offset& first = board->free_pieces[std::countr_zero(std::bit_ceil(std::max(num_bytes, size_t(64))))];
    *at<Offset>(board, piece) = first;
    first = piece;
}

// A file for a new board. It has no name, so that nothing of it is left when the last process that maps it ends, however it ends. Others open it by
// its number in this process, so it stays open.
inline int new_board_file() {
    const char* folder = getenv("TMPDIR");
    std::string path = std::string(folder && *folder ? folder : "/tmp") + "/fake-gpu-nccl-XXXXXX";
    int file = mkostemp(path.data(), O_CLOEXEC);
    if (file < 0 || unlink(path.c_str()) != 0 || ftruncate(file, off_t(BOARD_BYTES)) != 0) {
        stop("NCCL: %s cannot be written", path.c_str());
    }
    return file;
}

// Maps the board in a file; null where there is none. Its pages take room on the disk as they are used.
inline Board* map_board(int file, bool is_new) {
    struct stat found;
    // The process that had the board may have ended, and its number may be another's.
    if (file < 0 || fstat(file, &found) != 0 || found.st_size != off_t(BOARD_BYTES)) {
        return nullptr;
    }
    void* mapped = mmap(nullptr, BOARD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
    if (mapped == MAP_FAILED) {
        stop("NCCL: a board cannot be mapped");
    }
    auto* board = (Board*)mapped;
    if (is_new) {
        pthread_mutexattr_t attributes;
        pthread_mutexattr_init(&attributes);
        pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
        pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
        pthread_mutex_init(&board->mutex, &attributes);
        board->num_used_bytes = std::bit_ceil(sizeof(Board));
        board->is_made = true;
    }
    return board->is_made ? board : nullptr;
}

// A new clique of so many members. The lock is held.
inline int add_clique(Board* board, int size) {
    if (size > MEMBERS_MAX || board->num_cliques == CLIQUES_MAX) {
        stop("NCCL: at most %d ranks and %d communicators", MEMBERS_MAX, CLIQUES_MAX);
    }
    Clique& clique = board->cliques[board->num_cliques];
    clique = {size, 0, {}, 0, 0};
    for (int& device : clique.devices) {
        device = -1;
    }
    return board->num_cliques++;
}

}
