#ifdef __cplusplus
#include <math.h>
#else
double log1p(double);
double tanh(double);
float copysignf(float, float);
#endif
enum { MLGO_OUTPUTS = @OUTPUTS@, MLGO_FEATURES = @FEATURES@ };
@TABLES@
static inline void mlgo_product(const float *in, const float *w, int n, int m, float *out) {
  for (int j = 0; j < m; ++j) out[j] = in[0] * w[j];
  for (int i = 1; i < n; ++i)
    for (int j = 0; j < m; ++j) out[j] += in[i] * w[i * m + j];
}
static void mlgo_forward(const float *features, float *outputs) {
@STATEMENTS@
  for (int i = 0; i < MLGO_OUTPUTS; ++i) outputs[i] = @LAST@[i];
}
