// GPU kernels: one thread per feature, per group, or per piece of a sum. REAL is the working precision. A sum is
// left in pieces, one per thread, that the caller adds up: no atomic operations, so that the same input always
// gives the same bits. Threads never wait for each other.
typedef REAL real;
typedef long long big;
#define THREAD (blockIdx.x * blockDim.x + threadIdx.x)
#define THREADS (gridDim.x * blockDim.x)
#define FOR_ALL(i, n) for (int i = THREAD; i < (n); i += THREADS)
#define FOR_MANY(i, n) for (big i = THREAD; i < (n); i += THREADS)

// places in the table of scalars
enum { COUPLING, THRESHOLD, LOW, TAU, STEP_LOW, STEP_HIGH, SHRINK, SIGMA, DAMPING, REACH, N_SCALARS };

template <typename T> __device__ inline T clipped(T z, T low, T high)
{ return z < low ? low : (z > high ? high : z); }

__device__ inline double absolute(double x) { return x < 0 ? -x : x; }

// factor of the dual step for a group of a squared norm: damping, and projection into the ball
__device__ inline real dual_factor(real squares, const real* s)
{
    real reached = s[REACH] * squares;
    return reached > 1 ? s[DAMPING] * rsqrt(reached) : s[DAMPING];
}

// The penalty by its numbers (DualBall.value_factors): h of a group of rows of a norm, and the share of a row and its
// dual variable in h* - dual'z
#define PENALTY double slope, double corner, double curve, double half_d
#define MAKE_PENALTY const Penalty penalty = {slope, corner, curve, half_d}
struct Penalty { double slope, corner, curve, half_d; };

__device__ inline double value_of(const Penalty& penalty, double norm)
{
    double inner = norm < penalty.corner ? norm : penalty.corner;
    return penalty.slope * (norm - inner) + penalty.curve * inner * inner;
}

__device__ inline double row_share(const Penalty& penalty, double row, double dual)
{ return (penalty.half_d * dual - row) * dual; }

extern "C" __global__ void set_scalars(real* s, real a0, real a1, real a2, real a3, real a4, real a5, real a6,
                                       real a7, real a8, real a9)
{
    if (THREAD == 0) {
        s[0] = a0; s[1] = a1; s[2] = a2; s[3] = a3; s[4] = a4;
        s[5] = a5; s[6] = a6; s[7] = a7; s[8] = a8; s[9] = a9;
    }
}

// pieces of n_sums sums, (n_sums, n_pieces), added up to (n_sums, width)
extern "C" __global__ void add_up(const double* __restrict__ pieces, int n_sums, int n_pieces, int width,
                                  double* out)
{
    FOR_ALL(t, n_sums * width) {
        const double* own = pieces + (big)(t / width) * n_pieces;
        double total = 0;
        for (int k = t % width; k < n_pieces; k += width) total += own[k];
        out[t] = total;
    }
}

// one primal step of a feature: what v becomes, and what it is extrapolated to
__device__ inline void primal_step(real* v, real* bar, real y, real pull, const real* s, real rho)
{
    real old = *v;
    real moved = old + s[TAU] * (y - s[COUPLING] * pull);
    real candidate = (moved - clipped(moved, s[STEP_LOW], s[STEP_HIGH])) * s[SHRINK];
    *bar = candidate + candidate - old;
    *v = old + rho * (candidate - old);
}

// w of a feature, and its shares of the smooth gap and of the squared norm of w
__device__ inline real look_at(real y, real v, real pull, const real* s, double* smooth, double* squares)
{
    real z = y - s[COUPLING] * pull;
    real b = clipped(z, s[LOW], s[THRESHOLD]);
    real w = (real)0.5 * (z - b);
    double distance = (double)v - w;
    *smooth += distance * distance + (s[THRESHOLD] * absolute(v) - (double)b * v);
    *squares += (double)w * w;
    return w;
}

// sums of a thread: slacks h(Ax) + h*(dual) - dual'Ax of v and of w, squares of the dual variable, h(Ax) of both
__device__ inline void put_shares(double* sums, double slack_v, double slack_w, double conjugate, double value_v,
                                  double value_w)
{
    sums[THREAD] = slack_v;
    sums[THREADS + THREAD] = slack_w;
    sums[2 * THREADS + THREAD] = conjugate;
    sums[3 * THREADS + THREAD] = value_v;
    sums[4 * THREADS + THREAD] = value_w;
}
