// Vectors of length P in float64.

extern "C" __global__ void smooth_shares(int n, const double* y, const double* pull, const double* v,
                                         double threshold, int positive, double* sums)
{
    double gap = 0, value = 0;
    FOR_ALL(j, n) {
        double z = y[j] - pull[j];
        double b = positive ? (z < threshold ? z : threshold) : clipped(z, -threshold, threshold);
        double distance = v[j] - 0.5 * (z - b);
        gap += distance * distance + (threshold * absolute(v[j]) - b * v[j]);
        value += 0.5 * (v[j] - y[j]) * (v[j] - y[j]) + 0.5 * v[j] * v[j];
    }
    sums[THREAD] = gap;
    sums[THREADS + THREAD] = value;
}

// rows_k'x for every row, of length n
extern "C" __global__ void inner_products(int n, const double* __restrict__ x, int n_rows,
                                          const double* __restrict__ rows, double* sums)
{
    for (int k = 0; k < n_rows; k++) {
        const double* row = rows + (big)k * n;
        double total = 0;
        FOR_ALL(j, n) total += row[j] * x[j];
        sums[k * THREADS + THREAD] = total;
    }
}

// sums of x, of its magnitudes, and of (x - shift)^2
extern "C" __global__ void sums(int n, const double* __restrict__ x, double shift, double* pieces)
{
    double total = 0, magnitudes = 0, squares = 0;
    FOR_ALL(j, n) {
        total += x[j];
        magnitudes += absolute(x[j]);
        squares += (x[j] - shift) * (x[j] - shift);
    }
    pieces[THREAD] = total;
    pieces[THREADS + THREAD] = magnitudes;
    pieces[2 * THREADS + THREAD] = squares;
}

// out = a x + b y; out may be x or y
extern "C" __global__ void add_two(int n, double a, const double* x, double b, const double* y, double* out)
{
    FOR_ALL(j, n) out[j] = a * x[j] + b * y[j];
}

// how many magnitudes of x are at most each of the bounds
extern "C" __global__ void counts(int n, const double* __restrict__ x, int n_bounds,
                                  const double* __restrict__ bounds, double* pieces)
{
    for (int k = 0; k < n_bounds; k++) {
        double found = 0;
        FOR_ALL(j, n) found += absolute(x[j]) <= bounds[k];
        pieces[k * THREADS + THREAD] = found;
    }
}
