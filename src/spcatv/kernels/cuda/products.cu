// Products with X, whose rows are given by their numbers; sums in float64.

// part[i, t]: what piece t of the columns adds to X_i v
extern "C" __global__ void dot(const real* X, big n_columns, const big* rows, big n_rows, const double* v,
                               int n_pieces, double* part)
{
    FOR_MANY(k, n_rows * n_pieces) {
        const real* x = X + rows[k / n_pieces] * n_columns;
        double total = 0;
        for (big j = k % n_pieces; j < n_columns; j += n_pieces) total += x[j] * v[j];
        part[k] = total;
    }
}

// part[t, j]: what piece t of the rows adds to u'X_j
extern "C" __global__ void transpose_dot(const real* X, big n_columns, const big* rows, big n_rows,
                                         const double* u, int n_pieces, double* part)
{
    FOR_MANY(k, n_columns * n_pieces) {
        big piece = k / n_columns, j = k % n_columns;
        big first = n_rows * piece / n_pieces, last = n_rows * (piece + 1) / n_pieces;
        double total = 0;
        for (big i = first; i < last; i++) total += u[i] * X[rows[i] * n_columns + j];
        part[k] = total;
    }
}

// part[t, j]: what piece t of the rows adds to ||X_j - mean_j||^2
extern "C" __global__ void squares(const real* X, big n_columns, const big* rows, big n_rows,
                                   const double* mean, int n_pieces, double* part)
{
    FOR_MANY(k, n_columns * n_pieces) {
        big piece = k / n_columns, j = k % n_columns;
        big first = n_rows * piece / n_pieces, last = n_rows * (piece + 1) / n_pieces;
        double total = 0;
        for (big i = first; i < last; i++) {
            double entry = X[rows[i] * n_columns + j] - mean[j];
            total += entry * entry;
        }
        part[k] = total;
    }
}
