#ifndef SHRUTI_TDT_COMPUTE_H
#define SHRUTI_TDT_COMPUTE_H

#include <functional>

#include "compute-scope.h"
#include "conformer-functions.h"
#include "ggml-alloc.h"
#include "ggml-backend.h"

/** A graph, its tensors, and the memory in which it computes, which is kept for the next graph. */
class TdtGraph {
   public:
    explicit TdtGraph(ggml_backend_t backend);
    ~TdtGraph();
    TdtGraph(const TdtGraph&) = delete;
    TdtGraph& operator=(const TdtGraph&) = delete;

    /** Begins a graph with at most so many nodes. The tensors of the one before are gone. */
    void Begin(size_t most_nodes);
    /** Adds what a tensor needs to the graph. */
    void Add(ggml_tensor* result);
    /** Finds memory for all tensors. Throws a BindingError without it. */
    void Allocate();

    /** The context of the graph's tensors. */
    ggml_context* context = nullptr;
    ggml_cgraph*  graph = nullptr;

   private:
    ggml_gallocr_t allocator;
};

/** What one chunk computes with: the processor, and how many threads of it. */
class TdtComputer {
   public:
    TdtComputer();
    ~TdtComputer();
    TdtComputer(const TdtComputer&) = delete;
    TdtComputer& operator=(const TdtComputer&) = delete;

    /** Sets the threads of the next graphs, on the thread that computes them, which has been set to `niceness`. */
    void SetThreads(int count, int niceness);
    /** Computes a graph. Throws a BindingError of kind kAbort when the scope's abort is wanted. */
    void Compute(TdtGraph& graph, ComputeScope& scope);
    /** The same on this thread alone: for small graphs, in which threads would wait for each other. */
    void ComputeAlone(TdtGraph& graph, ComputeScope& scope);

    /** The threads of the next graph. */
    int Threads() const { return threads; }

    ggml_backend_t backend;
    /** Operations of our own for the processor; null where ggml's shall compute everything. */
    const shruti_conformer_functions* operations = nullptr;

   private:
    void Run(TdtGraph& graph);

    ggml_threadpool_t pool = nullptr;
    int               threads = 1;
    int               pool_niceness = 0;
};

#endif
