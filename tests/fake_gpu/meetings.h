// Operations whose members meet: each brings what it sends, and takes what it gets once all have come. Nothing is buffered: a
// sender stays until its receiver has come.
#pragma once

#include "board.h"

namespace fake_gpu {

enum class Kind : int { AllGather, ReduceScatter, AllReduce, Transfer, Registration };

inline const char* name_of(Kind kind) {
    switch (kind) {
        case Kind::AllGather: return "an all-gather";
        case Kind::ReduceScatter: return "a reduce-scatter";
        case Kind::AllReduce: return "an all-reduce";
        case Kind::Registration: return "a registration";
        default: return "a transfer";
    }
}

// Which operation of a clique: the number of the collective, or of the transfer from one member to another.
struct MeetingKey {
    // The same for all collectives; of a registration `from` is -1.
    bool is_transfer;
    int from, to;
    uint64_t number;

    bool operator==(const MeetingKey&) const = default;
};

struct Meeting {
    Offset next;
    MeetingKey key;
    Kind kind;
    // Elements of a part, and their type.
    uint64_t count;
    int type;
    int num_members, num_arrived, num_done;
    // By the members' ranks; of a transfer, the sender first.
    bool has_arrived[MEMBERS_MAX];
    // When the last of those that have come was there, where times are virtual.
    uint64_t ready_ns;
    Offset data[MEMBERS_MAX];
    uint64_t data_bytes[MEMBERS_MAX];

    bool is_complete() const { return num_arrived == num_members; }
};

// What one member calls for.
struct Call {
    Kind kind;
    uint64_t count;
    int type;
};

// The meeting of this key, opened by the member that comes first. The lock is held.
inline Meeting* meet(Board* board, int clique_number, const MeetingKey& key, const Call& call) {
    Clique& clique = board->cliques[clique_number];
    for (auto* found = at<Meeting>(board, clique.meetings); found; found = at<Meeting>(board, found->next)) {
        if (found->key == key) {
            if (found->kind != call.kind || found->count != call.count || found->type != call.type) {
                stop("NCCL: members of a communicator disagree: %s of %zu elements of type %d, and %s of %zu of type %d",
                     name_of(found->kind), size_t(found->count), found->type, name_of(call.kind),
                     size_t(call.count), call.type);
            }
            return found;
        }
    }
    Offset offset = take_piece(board, sizeof(Meeting));
    auto* opened = at<Meeting>(board, offset);
    opened->key = key;
    opened->kind = call.kind;
    opened->count = call.count;
    opened->type = call.type;
    opened->num_members = key.is_transfer ? 2 : clique.size;
    opened->next = clique.meetings;
    clique.meetings = offset;
    return opened;
}

// A member brings what it sends, at this time.
inline void arrive(Board* board, Meeting* meeting, int place, const void* bytes, size_t num_bytes, uint64_t ns) {
    if (meeting->has_arrived[place]) {
        stop("NCCL: a rank takes part twice in %s", name_of(meeting->kind));
    }
    if (num_bytes != 0) {
        meeting->data[place] = take_piece(board, num_bytes);
        meeting->data_bytes[place] = num_bytes;
        memcpy(at<char>(board, meeting->data[place]), bytes, num_bytes);
    }
    meeting->has_arrived[place] = true;
    meeting->ready_ns = std::max(meeting->ready_ns, ns);
    meeting->num_arrived++;
}

// A member has what it gets. The last one ends the meeting.
inline void leave(Board* board, int clique_number, Meeting* meeting) {
    if (++meeting->num_done < meeting->num_members) {
        return;
    }
    for (int place = 0; place < meeting->num_members; place++) {
        if (meeting->data[place] != 0) {
            give_piece(board, meeting->data[place], meeting->data_bytes[place]);
        }
    }
    Offset* link = &board->cliques[clique_number].meetings;
    while (at<Meeting>(board, *link) != meeting) {
        link = &at<Meeting>(board, *link)->next;
    }
    Offset own = *link;
    *link = meeting->next;
    give_piece(board, own, sizeof(Meeting));
}

// The split of this number of a clique, opened by the member that calls first. The lock is held.
inline Split* split(Board* board, int clique_number, uint64_t round) {
    Clique& clique = board->cliques[clique_number];
    for (auto* found = at<Split>(board, clique.splits); found; found = at<Split>(board, found->next)) {
        if (found->round == round) {
            return found;
        }
    }
    Offset offset = take_piece(board, sizeof(Split));
    auto* opened = at<Split>(board, offset);
    opened->round = round;
    opened->next = clique.splits;
    clique.splits = offset;
    return opened;
}

// All members of a clique have called for a split: those of a color become a clique, by their keys and then by their ranks.
inline void carry_out(Board* board, Split* split, const Clique& clique) {
    for (int rank = 0; rank < clique.size; rank++) {
        split->cliques[rank] = -1;
    }
    for (int rank = 0; rank < clique.size; rank++) {
        int color = split->colors[rank];
        if (color < 0 || split->cliques[rank] != -1) {
            continue;
        }
        int order[MEMBERS_MAX], size = 0;
        for (int other = 0; other < clique.size; other++) {
            if (split->colors[other] == color) {
                order[size++] = other;
            }
        }
        std::stable_sort(order, order + size, [&](int a, int b) { return split->keys[a] < split->keys[b]; });
        int made = add_clique(board, size);
        for (int place = 0; place < size; place++) {
            split->cliques[order[place]] = made;
            split->ranks[order[place]] = place;
            board->cliques[made].devices[place] = clique.devices[order[place]];
        }
        board->cliques[made].num_joined = size;
    }
}

}
