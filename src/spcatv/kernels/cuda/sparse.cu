// Any structure, by its sparse operator A and its transpose, both in compressed rows.

#define ROWS(type) const int* group_ptr, int n_groups, const int* indptr, const int* indices, const type* data

__device__ inline real product(const int* indptr, const int* indices, const real* data, const real* x, int r)
{
    real total = 0;
    for (int e = indptr[r]; e < indptr[r + 1]; e++) total += data[e] * x[indices[e]];
    return total;
}

extern "C" __global__ void primal(int n, const int* indptr, const int* indices, const real* data,
                                  const real* y, real* v, real* bar, const real* dual, const real* s, real rho)
{
    FOR_ALL(j, n) primal_step(v + j, bar + j, y[j], product(indptr, indices, data, dual, j), s, rho);
}

extern "C" __global__ void dual(ROWS(real), const real* bar, real* dual, real* moved, const real* s,
                                real rho)
{
    FOR_ALL(g, n_groups) {
        real squares = 0;
        for (int r = group_ptr[g]; r < group_ptr[g + 1]; r++) {
            moved[r] = dual[r] + s[SIGMA] * product(indptr, indices, data, bar, r);
            squares += moved[r] * moved[r];
        }
        real factor = dual_factor(squares, s);
        for (int r = group_ptr[g]; r < group_ptr[g + 1]; r++)
            dual[r] += rho * (factor * moved[r] - dual[r]);
    }
}

extern "C" __global__ void look(int n, const int* indptr, const int* indices, const real* data,
                                const real* y, const real* v, real* w, const real* dual, const real* s,
                                double* sums)
{
    double smooth = 0, squares = 0;
    FOR_ALL(j, n) w[j] = look_at(y[j], v[j], product(indptr, indices, data, dual, j), s, &smooth, &squares);
    sums[THREAD] = smooth;
    sums[THREADS + THREAD] = squares;
}

__device__ inline double exact_product(const int* indptr, const int* indices, const double* data,
                                       const real* x, int r)
{
    double total = 0;
    for (int e = indptr[r]; e < indptr[r + 1]; e++) total += data[e] * x[indices[e]];
    return total;
}

// h(Ax), its slack h(Ax) + h*(dual) - dual'Ax, and the sum of squares of the dual variable, of one group
__device__ inline void structured(ROWS(double), const Penalty& penalty, const real* x, const real* dual, int g,
                                  double* value, double* slack, double* conjugate)
{
    double squares = 0, share = 0;
    for (int r = group_ptr[g]; r < group_ptr[g + 1]; r++) {
        double row = exact_product(indptr, indices, data, x, r), entry = dual[r];
        squares += row * row;
        share += row_share(penalty, row, entry);
        *conjugate += entry * entry;
    }
    double own = value_of(penalty, sqrt(squares));
    *value += own;
    *slack += own + share;
}

extern "C" __global__ void shares(ROWS(double), PENALTY, const real* v, const real* w, const real* dual, double* sums)
{
    MAKE_PENALTY;
    double slack_v = 0, slack_w = 0, conjugate = 0, value_v = 0, value_w = 0, twice = 0;
    FOR_ALL(g, n_groups) {
        structured(group_ptr, n_groups, indptr, indices, data, penalty, v, dual, g, &value_v, &slack_v, &conjugate);
        structured(group_ptr, n_groups, indptr, indices, data, penalty, w, dual, g, &value_w, &slack_w, &twice);
    }
    put_shares(sums, slack_v, slack_w, conjugate, value_v, value_w);
}

extern "C" __global__ void project(const int* group_ptr, int n_groups, real* dual, double radius)
{
    FOR_ALL(g, n_groups) {
        double squares = 0;
        for (int r = group_ptr[g]; r < group_ptr[g + 1]; r++) squares += (double)dual[r] * dual[r];
        if (squares <= radius * radius) continue;
        for (int r = group_ptr[g]; r < group_ptr[g + 1]; r++) dual[r] = dual[r] * (radius / sqrt(squares));
    }
}

extern "C" __global__ void pull(int n, const int* indptr, const int* indices, const double* data,
                                      const real* dual, double coupling, double* out)
{
    FOR_ALL(j, n) out[j] = coupling * exact_product(indptr, indices, data, dual, j);
}
