
// A masked grid of at most three axes in a padded box (spcatv/kernels/grid_layout.py): v, bar and the dual variable of
// every axis lie in the box, and so does y. A missing edge has a dual variable of zero.

struct Box {
    int n_cells;
    int stride[3];
    double weight[3];
};

#define BOX const int* __restrict__ place, int n, int n_cells, int stride0, int stride1, int stride2, \
            double weight0, double weight1, double weight2
#define MAKE_BOX const Box box = {n_cells, {stride0, stride1, stride2}, {weight0, weight1, weight2}}
#define DUAL(axis, i) dual[(axis) * box.n_cells + (i)]
#define LAST (AXES - 1)

// (A'dual)_i, in the precision T
template <typename T> __device__ inline T pull_at(const Box& box, const real* __restrict__ dual, int i)
{
    T pull = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++)
        pull += (T)box.weight[axis] * ((T)DUAL(axis, i - box.stride[axis]) - (T)DUAL(axis, i));
    return pull;
}

// Four cells one after the other along the last axis; the first one's number is a multiple of four.
struct alignas(4 * sizeof(real)) Four { real at[4]; };
__device__ inline Four four(const real* x, int i) { return *(const Four*)(x + i); }

// The dual variable of four cells, and that of the cells before them along every axis but the last.
struct Around {
    Four own[AXES], before[AXES];
};

__device__ inline Around look_around(const Box& box, const real* __restrict__ dual, int i)
{
    Around around;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) {
        around.own[axis] = four(&DUAL(axis, 0), i);
        if (axis < AXES - 1) around.before[axis] = four(&DUAL(axis, 0), i - box.stride[axis]);
    }
    return around;
}

// bar of four cells; v becomes what it is after the primal step
__device__ inline Four primal_of_four(const Box& box, const real* __restrict__ y, const real* __restrict__ dual,
                                      const real* s, real rho, int i, const Around& around, Four* v)
{
    const Four target = four(y, i);
    real left = DUAL(LAST, i - 1);
    Four bar;
#pragma unroll
    for (int k = 0; k < 4; k++) {
        real own = around.own[LAST].at[k], pull = (real)box.weight[LAST] * (left - own);
#pragma unroll
        for (int axis = 0; axis < LAST; axis++)
            pull += (real)box.weight[axis] * (around.before[axis].at[k] - around.own[axis].at[k]);
        primal_step(&v->at[k], &bar.at[k], target.at[k], pull, s, rho);
        left = own;
    }
    return bar;
}

// bar of one cell
__device__ inline real bar_at(const Box& box, const real* __restrict__ y, const real* __restrict__ v,
                              const real* __restrict__ dual, const real* s, real rho, int i)
{
    real moved = v[i], bar;
    primal_step(&moved, &bar, y[i], pull_at<real>(box, dual, i), s, rho);
    return bar;
}

// The dual step of four cells: bar is theirs, ahead that of the next four along every axis, and has their edges.
__device__ inline void dual_of_four(const Box& box, unsigned int has, int isotropic, const real* s, real rho,
                                    const Four& bar, const Four* ahead, const Around& around, real* new_dual, int i)
{
    Four after[AXES];
#pragma unroll
    for (int k = 0; k < 4; k++) {
        real moved[AXES], squares = 0;
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            real row = (real)box.weight[axis] * (ahead[axis].at[k] - bar.at[k]);
            moved[axis] = has >> (8 * k + axis) & 1 ? around.own[axis].at[k] + s[SIGMA] * row : 0;
            squares += moved[axis] * moved[axis];
        }
        real factor = dual_factor(squares, s);
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            real to = (isotropic ? factor : dual_factor(moved[axis] * moved[axis], s)) * moved[axis];
            after[axis].at[k] = around.own[axis].at[k] + rho * (to - around.own[axis].at[k]);
        }
    }
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) *(Four*)(new_dual + axis * box.n_cells + i) = after[axis];
}

// One iteration, from v and dual to new_v and new_dual. A thread walks along the first axis, four cells wide and
// length[t] cells long, from cell start[t] on. What it needs of its neighbours' primal steps it computes itself,
// so that no thread waits for another. The bounds leave 80 registers to a thread, which is quickest.
extern "C" __global__ void __launch_bounds__(256, 3)
iterate(BOX, int n_walks, int backwards, const int* __restrict__ start, const int* __restrict__ length,
        const unsigned char* __restrict__ edges, int isotropic, const real* __restrict__ y, const real* __restrict__ v,
        const real* __restrict__ dual, real* __restrict__ new_v, real* __restrict__ new_dual,
        const real* __restrict__ table, real rho)
{
    MAKE_BOX;
    real s[N_SCALARS];
#pragma unroll
    for (int k = 0; k < N_SCALARS; k++) s[k] = table[k];
    if (THREAD >= n_walks) return;  // one walk per thread: a loop over walks would take registers
    const int t = backwards ? n_walks - 1 - THREAD : THREAD;
    int i = start[t];
    const int stop = i + length[t] * box.stride[0];
    Around here = look_around(box, dual, i), next;
    Four after = four(v, i), bar = primal_of_four(box, y, dual, s, rho, i, here, &after), ahead[AXES];
    for (; i < stop; i += box.stride[0]) {
        // all loads of a step are asked for at once, also those that a missing edge makes needless
        const unsigned int has = *(const unsigned int*)(edges + i);
        ahead[LAST].at[3] = bar_at(box, y, v, dual, s, rho, i + 4);
#pragma unroll
        for (int k = 0; k < 3; k++) ahead[LAST].at[k] = bar.at[k + 1];
        *(Four*)(new_v + i) = after;
#pragma unroll
        for (int axis = LAST - 1; axis >= 0; axis--) {  // the first axis comes last: the walk goes on there
            const int j = i + box.stride[axis];
            next = look_around(box, dual, j);
            after = four(v, j);
            ahead[axis] = primal_of_four(box, y, dual, s, rho, j, next, &after);
        }
        dual_of_four(box, has, isotropic, s, rho, bar, ahead, here, new_dual, i);
        here = next;
        bar = ahead[0];
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
        w[i] = look_at(y[i], v[i], pull_at<real>(box, dual, i), s, &smooth, &squares);
    }
    sums[THREAD] = smooth;
    sums[THREADS + THREAD] = squares;
}

__device__ inline double squares_at(const Box& box, const real* __restrict__ dual, int i)
{
    double squares = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) squares += (double)DUAL(axis, i) * (double)DUAL(axis, i);
    return squares;
}

// h(Ax) of the rows of one cell, and what is missing of h(Ax) + h*(dual) = dual'Ax there
__device__ inline void add_shares(const Box& box, unsigned char has, int isotropic, const Penalty& penalty,
                                  const real* __restrict__ x, const real* __restrict__ dual, int i,
                                  double* value, double* slack)
{
    double squares = 0, separate = 0, share = 0;
#pragma unroll
    for (int axis = 0; axis < AXES; axis++) {
        double row = has >> axis & 1 ? box.weight[axis] * ((double)x[i + box.stride[axis]] - (double)x[i]) : 0;
        squares += row * row;
        if (!isotropic) separate += value_of(penalty, absolute(row));
        share += row_share(penalty, row, DUAL(axis, i));
    }
    double own = isotropic ? value_of(penalty, sqrt(squares)) : separate;
    *value += own;
    *slack += own + share;
}

extern "C" __global__ void shares(BOX, const unsigned char* __restrict__ edges, int isotropic, PENALTY,
                                  const real* __restrict__ v, const real* __restrict__ w,
                                  const real* __restrict__ dual, double* sums)
{
    MAKE_BOX;
    MAKE_PENALTY;
    double slack_v = 0, slack_w = 0, conjugate = 0, value_v = 0, value_w = 0;
    FOR_ALL(t, n) {
        int i = place[t];
        add_shares(box, edges[i], isotropic, penalty, v, dual, i, &value_v, &slack_v);
        add_shares(box, edges[i], isotropic, penalty, w, dual, i, &value_w, &slack_w);
        if (half_d > 0) conjugate += squares_at(box, dual, i);
    }
    put_shares(sums, slack_v, slack_w, conjugate, value_v, value_w);
}

extern "C" __global__ void project(BOX, int isotropic, real* __restrict__ dual, double radius)
{
    MAKE_BOX;
    FOR_ALL(t, n) {
        int i = place[t];
        double squares = squares_at(box, dual, i);
        if (isotropic && squares <= radius * radius) continue;
#pragma unroll
        for (int axis = 0; axis < AXES; axis++) {
            double entry = DUAL(axis, i);
            DUAL(axis, i) = isotropic ? entry * (radius / sqrt(squares)) : clipped(entry, -radius, radius);
        }
    }
}

extern "C" __global__ void pull(BOX, const real* __restrict__ dual, double coupling, double* __restrict__ out)
{
    MAKE_BOX;
    FOR_ALL(t, n) out[t] = coupling * pull_at<double>(box, dual, place[t]);
}

// out[place[t]] = x[t]
extern "C" __global__ void put(const int* __restrict__ place, int n, const double* __restrict__ x, real* out)
{
    FOR_ALL(t, n) out[place[t]] = (real)x[t];
}

// out[t] = x[place[t]]
extern "C" __global__ void pick(const int* __restrict__ place, int n, const real* __restrict__ x, double* out)
{
    FOR_ALL(t, n) out[t] = x[place[t]];
}
