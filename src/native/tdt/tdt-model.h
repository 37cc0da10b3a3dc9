#ifndef SHRUTI_TDT_MODEL_H
#define SHRUTI_TDT_MODEL_H

#include <condition_variable>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "compute-scope.h"
#include "tdt-decoder.h"
#include "tdt-encoder.h"
#include "tdt-weights.h"

/** The sound of a chunk, and what is found in it. */
struct TdtSound {
    /** Frames × bands. */
    std::vector<float>    features;
    int                   frames = 0;
    std::vector<TdtToken> tokens;
};

/** What one running computation needs besides the weights. It is kept for later ones. */
struct TdtSlot {
    TdtSlot(const TdtWeights& weights, TdtPositions& positions)
        : encoder(weights, positions, computer), decoder(weights, computer) {}
    TdtComputer computer;
    TdtEncoder  encoder;
    TdtDecoder  decoder;
};

/** Loaded weights, shared by the JavaScript object and every running chunk. The last of them frees them. */
class TdtModel {
   public:
    explicit TdtModel(const std::string& path) : weights(path) {}

    /** What a chunk computes with, and whether it must stop. */
    struct Terms {
        /** Most computations of the model at once, in each of which several chunks may take part; 0: the chunk has its own. */
        int groups;
        /** Most threads of the chunk's own computation, or of one in a group while there are fewer than groups. */
        int threads;
        /** How much less urgent its threads are. Chunks of one niceness take part in the same computations. */
        int niceness;
        bool (*is_stopped)(void*);
        void* data;
    };

    /** Finds the tokens of a sound. Throws a BindingError, of kind kAbort once it is stopped. */
    void Recognize(const std::shared_ptr<TdtSound>& sound, const Terms& terms);

    const TdtWeights weights;

   private:
    struct Waiting;
    using Lock = std::unique_lock<std::mutex>;
    using Batch = std::vector<std::shared_ptr<Waiting>>;

    /** Chunks of one niceness, in the order in which they came. */
    struct Queue {
        std::list<std::shared_ptr<Waiting>> waiting;
        /** Computations that run. */
        int computing = 0;
    };

    Batch                    Take(Queue& queue, const std::shared_ptr<Waiting>& first);
    void                     Lead(Queue& queue, const std::shared_ptr<Waiting>& own, const Terms& terms, Lock& lock);
    void                     PutBack(Queue& queue, const Batch& batch, bool is_alone);
    void                     Compute(const Batch& batch, const Terms& terms, int threads);
    std::unique_ptr<TdtSlot> TakeSlot();
    void                     GiveSlot(std::unique_ptr<TdtSlot> slot);

    TdtPositions                          positions{weights};
    std::mutex                            mutex;
    std::condition_variable               changed;
    std::map<int, Queue>                  queues;
    std::vector<std::unique_ptr<TdtSlot>> idle;
};

#endif
