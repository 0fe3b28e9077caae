
// A masked grid of at most three axes in a padded box (spcatv/kernels/box.py): v, bar and the dual variable of
// every axis lie in the box, y in the order of the features. A missing edge has a dual variable of zero.

struct Box {
    int n_cells;
    int stride[3];
    double weight[3];
};

#define BOX const int* __restrict__ place, int n, int n_cells, int stride0, int stride1, int stride2, \
            double weight0, double weight1, double weight2
#define MAKE_BOX const Box box = {n_cells, {stride0, stride1, stride2}, {weight0, weight1, weight2}}
#define DUAL(axis, i) dual[(axis) * box.n_cells + (i)]

// (A'dual)_i, in the precision T
template <typename T> __device__ inline T pull_at(const Box& box, const real* __restrict__ dual, int i)
{
    T pull = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++)
        pull += (T)box.weight[axis] * ((T)DUAL(axis, i - box.stride[axis]) - (T)DUAL(axis, i));
    return pull;
}

extern "C" __global__ void primal(BOX, const real* __restrict__ y, real* __restrict__ v, real* __restrict__ bar,
                                  const real* __restrict__ dual, const real* __restrict__ s, real rho)
{
    MAKE_BOX;
    FOR_ALL(t, n) {
        int i = place[t];
        primal_step(v + i, bar + i, y[t], pull_at<real>(box, dual, i), s, rho);
    }
}

extern "C" __global__ void dual(BOX, const unsigned char* __restrict__ edges, int kind,
                                const real* __restrict__ bar, real* __restrict__ dual,
                                const real* __restrict__ s, real rho)
{
    MAKE_BOX;
    FOR_ALL(t, n) {
        int i = place[t];
        unsigned char has = edges[i];
        if (!has) continue;
        real old[AXES], moved[AXES], own = bar[i], squares = 0;
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            old[axis] = DUAL(axis, i);
            real row = (real)box.weight[axis] * (bar[i + box.stride[axis]] - own);
            moved[axis] = has >> axis & 1 ? old[axis] + s[SIGMA] * row : 0;
            squares += moved[axis] * moved[axis];
        }
        real factor = kind == GRAPHNET ? s[DAMPING] : into_ball(squares);
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            real to = kind == ANISOTROPIC ? clipped(moved[axis], (real)-1, (real)1) : factor * moved[axis];
            if (has >> axis & 1) DUAL(axis, i) = old[axis] + rho * (to - old[axis]);
        }
    }
}

extern "C" __global__ void look(BOX, const real* __restrict__ y, const real* __restrict__ v,
                                real* __restrict__ w, const real* __restrict__ dual,
                                const real* __restrict__ s, double* sums)
{
    MAKE_BOX;
    double smooth = 0, squares = 0;
    FOR_ALL(t, n) {
        int i = place[t];
        w[i] = look_at(y[t], v[i], pull_at<real>(box, dual, i), s, &smooth, &squares);
    }
    sums[THREAD] = smooth;
    sums[THREADS + THREAD] = squares;
}

// ||(Ax)_g||, sum of magnitudes or sum of squares of the rows of one cell; for x in the precision T
template <typename T> __device__ inline double length_at(const Box& box, unsigned char has, int kind,
                                                          const T* __restrict__ x, int i, double* rows)
{
    double squares = 0, magnitudes = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) {
        rows[axis] = has >> axis & 1 ? box.weight[axis] * ((double)x[i + box.stride[axis]] - (double)x[i]) : 0;
        squares += rows[axis] * rows[axis];
        magnitudes += absolute(rows[axis]);
    }
    return kind == GRAPHNET ? squares : kind == ANISOTROPIC ? magnitudes : sqrt(squares);
}

// what is missing of h(Ax) + h*(dual) = dual'Ax in one cell
__device__ inline double slack_at(const Box& box, int kind, const real* __restrict__ dual, int i,
                                  const double* rows, double length)
{
    double inner = 0, mismatch = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) {
        double entry = DUAL(axis, i), off = rows[axis] - 0.5 * entry;
        inner += rows[axis] * entry;
        mismatch += off * off;
    }
    return kind == GRAPHNET ? mismatch : length - inner;
}

__device__ inline double squares_at(const Box& box, const real* __restrict__ dual, int i)
{
    double squares = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) squares += (double)DUAL(axis, i) * (double)DUAL(axis, i);
    return squares;
}

extern "C" __global__ void slacks(BOX, const unsigned char* __restrict__ edges, int kind,
                                  const real* __restrict__ v, const real* __restrict__ w,
                                  const real* __restrict__ dual, double* sums)
{
    MAKE_BOX;
    double of_v = 0, of_w = 0, conjugate = 0, rows[AXES];
    FOR_ALL(t, n) {
        int i = place[t];
        double length = length_at(box, edges[i], kind, v, i, rows);
        of_v += slack_at(box, kind, dual, i, rows, length);
        length = length_at(box, edges[i], kind, w, i, rows);
        of_w += slack_at(box, kind, dual, i, rows, length);
        if (kind == GRAPHNET) conjugate += squares_at(box, dual, i);
    }
    sums[THREAD] = of_v;
    sums[THREADS + THREAD] = of_w;
    sums[2 * THREADS + THREAD] = conjugate;
}

extern "C" __global__ void project(BOX, int kind, real* __restrict__ dual, double radius)
{
    MAKE_BOX;
    FOR_ALL(t, n) {
        int i = place[t];
        double squares = squares_at(box, dual, i);
        if (kind == ISOTROPIC && squares <= radius * radius) continue;
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            double entry = DUAL(axis, i);
            DUAL(axis, i) = kind == ISOTROPIC ? entry * (radius / sqrt(squares)) : clipped(entry, -radius, radius);
        }
    }
}

extern "C" __global__ void exact(BOX, const unsigned char* __restrict__ edges, int kind,
                                 const real* __restrict__ x, const real* __restrict__ dual, double coupling,
                                 double* __restrict__ pull, double* sums)
{
    MAKE_BOX;
    double value = 0, slack = 0, conjugate = 0, rows[AXES];
    FOR_ALL(t, n) {
        int i = place[t];
        pull[t] = coupling * pull_at<double>(box, dual, i);
        double length = length_at(box, edges[i], kind, x, i, rows);
        value += length;
        slack += slack_at(box, kind, dual, i, rows, length);
        if (kind == GRAPHNET) conjugate += squares_at(box, dual, i);
    }
    sums[THREAD] = value;
    sums[THREADS + THREAD] = slack;
    sums[2 * THREADS + THREAD] = conjugate;
}

extern "C" __global__ void value(BOX, const unsigned char* __restrict__ edges, int kind,
                                 const double* __restrict__ x, double* sums)
{
    MAKE_BOX;
    double total = 0, rows[AXES];
    FOR_ALL(t, n) total += length_at(box, edges[place[t]], kind, x, place[t], rows);
    sums[THREAD] = total;
}

extern "C" __global__ void adjoint(BOX, const real* __restrict__ dual, double* __restrict__ out)
{
    MAKE_BOX;
    FOR_ALL(t, n) out[t] = pull_at<double>(box, dual, place[t]);
}
