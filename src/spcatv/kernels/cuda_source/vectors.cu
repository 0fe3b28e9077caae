// Sums over vectors of length P in float64.

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

extern "C" __global__ void products(int n, const double* __restrict__ x, const double* __restrict__ y,
                                    double* sums)
{
    double inner = 0, magnitudes = 0;
    FOR_ALL(j, n) {
        inner += x[j] * y[j];
        magnitudes += absolute(x[j]);
    }
    sums[THREAD] = inner;
    sums[THREADS + THREAD] = magnitudes;
}
