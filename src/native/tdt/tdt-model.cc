#include "tdt-model.h"

#include <algorithm>
#include <chrono>
#include <exception>

#include "errors.h"

namespace {

/** Most chunks of one computation. */
constexpr size_t kMostSounds = 8;
/** Frames of features of one computation: 60 s, and one more of each chunk. The first of its chunks waits for the last one. */
constexpr size_t kMostFrames = 6000 + kMostSounds;
/** A chunk that waits looks this often whether it must stop. */
constexpr auto kLook = std::chrono::milliseconds(50);

}  // namespace

/** A chunk in a queue. */
struct TdtModel::Waiting {
    std::shared_ptr<TdtSound> sound;
    /** A computation in which several took part has failed: each is repeated alone. */
    bool is_alone = false;
    bool is_taken = false;
    bool is_done = false;
    /** Its thread waits no longer. */
    bool has_left = false;
};

void TdtModel::Recognize(const std::shared_ptr<TdtSound>& sound, const Terms& terms) {
    auto own = std::make_shared<Waiting>();
    own->sound = sound;
    if (terms.groups == 0) return Compute({own}, terms, terms.threads);
    Lock   lock(mutex);
    Queue& queue = queues[terms.niceness];
    queue.waiting.push_back(own);
    while (!own->is_done) {
        if (terms.is_stopped(terms.data)) {
            queue.waiting.remove(own);
            own->has_left = true;
            throw BindingError(ErrorKind::kAbort, "the transcription was aborted");
        }
        if (!own->is_taken && queue.computing < terms.groups) Lead(queue, own, terms, lock);
        else changed.wait_for(lock, kLook);
    }
}

/** Takes the first chunk and others out of the queue. */
TdtModel::Batch TdtModel::Take(Queue& queue, const std::shared_ptr<Waiting>& first) {
    Batch  batch{first};
    size_t frames = first->sound->features.size() / weights.sizes.mels;
    queue.waiting.remove(first);
    for (auto next = queue.waiting.begin(); next != queue.waiting.end() && !first->is_alone;) {
        const size_t more = (*next)->sound->features.size() / weights.sizes.mels;
        if (batch.size() == kMostSounds) break;
        if ((*next)->is_alone || frames + more > kMostFrames) {
            ++next;
            continue;
        }
        frames += more;
        batch.push_back(*next);
        next = queue.waiting.erase(next);
    }
    for (const auto& each : batch) each->is_taken = true;
    return batch;
}

/** Computes for a chunk and others, without the lock. What ends it ends this chunk alone. */
void TdtModel::Lead(Queue& queue, const std::shared_ptr<Waiting>& own, const Terms& terms, Lock& lock) {
    const Batch batch = Take(queue, own);
    queue.computing++;
    // As many computations as there are chunks will share the threads.
    const int wanted = queue.computing + static_cast<int>(queue.waiting.size());
    const int threads = std::max(1, terms.threads / std::min(terms.groups, wanted));
    lock.unlock();
    std::exception_ptr failure;
    try {
        Compute(batch, terms, threads);
    } catch (...) {
        failure = std::current_exception();
    }
    lock.lock();
    queue.computing--;
    changed.notify_all();
    if (failure == nullptr) {
        for (const auto& each : batch) each->is_done = true;
        return;
    }
    const bool is_stopped = terms.is_stopped(terms.data);
    own->has_left = is_stopped || batch.size() == 1;
    PutBack(queue, batch, !is_stopped);
    if (own->has_left) std::rethrow_exception(failure);
}

/** Lets chunks wait again, in their order. @param is_alone each is then computed alone */
void TdtModel::PutBack(Queue& queue, const Batch& batch, bool is_alone) {
    for (auto each = batch.rbegin(); each != batch.rend(); ++each) {
        if ((*each)->has_left) continue;
        (*each)->is_taken = false;
        (*each)->is_alone |= is_alone;
        queue.waiting.push_front(*each);
    }
}

void TdtModel::Compute(const Batch& batch, const Terms& terms, int threads) {
    std::unique_ptr<TdtSlot> slot = TakeSlot();
    ComputeScope             scope(terms.is_stopped, terms.data);
    slot->computer.SetThreads(threads, terms.niceness);
    std::vector<TdtEncoder::Encoded> encoded;
    for (size_t first = 0; first < batch.size();) {
        std::vector<std::vector<float>> sounds;
        size_t                          longest = 0;
        for (size_t n = first; n < batch.size(); n++) {
            const size_t frames = batch[n]->sound->features.size() / weights.sizes.mels;
            longest = std::max(longest, frames);
            if (n > first && longest * (sounds.size() + 1) > slot->encoder.MostFrames()) break;
            sounds.push_back(batch[n]->sound->features);
        }
        first += sounds.size();
        for (auto& each : slot->encoder.Encode(sounds, scope)) encoded.push_back(std::move(each));
    }
    std::vector<std::vector<TdtToken>> tokens = slot->decoder.Decode(encoded, scope);
    for (size_t n = 0; n < batch.size(); n++) {
        batch[n]->sound->frames = encoded[n].count;
        batch[n]->sound->tokens = std::move(tokens[n]);
    }
    GiveSlot(std::move(slot));
}

std::unique_ptr<TdtSlot> TdtModel::TakeSlot() {
    {
        std::lock_guard<std::mutex> lock(mutex);
        if (!idle.empty()) {
            std::unique_ptr<TdtSlot> slot = std::move(idle.back());
            idle.pop_back();
            return slot;
        }
    }
    return std::make_unique<TdtSlot>(weights, positions);
}

void TdtModel::GiveSlot(std::unique_ptr<TdtSlot> slot) {
    std::lock_guard<std::mutex> lock(mutex);
    idle.push_back(std::move(slot));
}
