#ifndef SHRUTI_TDT_POSITIONS_H
#define SHRUTI_TDT_POSITIONS_H

#include <memory>
#include <mutex>
#include <vector>

#include "tdt-compute.h"
#include "tdt-weights.h"

/**
 * What attention multiplies queries by to find the scores of distances: in each layer, weights times a row of sines and cosines for
 * each distance. It is the same for every sound, so a model computes it once, and all computations of the model read it.
 */
class TdtPositions {
   public:
    explicit TdtPositions(const TdtWeights& weights) : weights(weights) {}

    /** For distances of up to `frames` − 1 before and behind, the farthest before first: 2 × frames − 1 rows of each layer. */
    struct Table {
        explicit Table(ggml_backend_t backend) : graph(backend) {}
        TdtGraph                  graph;
        std::vector<ggml_tensor*> layers;
        int                       frames = 0;
    };

    /**
     * Returns a table for at least so many frames, which stays as long as it is held. The first that needs it computes it, and others
     * wait for it. Throws a BindingError when the scope's abort is wanted.
     */
    std::shared_ptr<const Table> For(int frames, TdtComputer& computer, ComputeScope& scope);

   private:
    void Fill(Table& table, ggml_tensor* positions) const;

    const TdtWeights&            weights;
    std::mutex                   mutex;
    std::shared_ptr<const Table> table;
};

#endif
