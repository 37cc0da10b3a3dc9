// Fourier transforms of real samples in vectors: a lane is a frame of its own, so nothing moves between lanes. For the
// mel spectrum (whisper/kernels/speech.cpp) and the speech detector (silero/net.cpp).
//
// `Floats` is a vector of the compiler. Everything here belongs to the file that includes it: files for several kinds of
// processors are linked together, and none may run the functions of another.
#ifndef SHRUTI_FOURIER_H
#define SHRUTI_FOURIER_H

#include "inline.h"

namespace {

template <typename Floats> struct Complex {
    Floats re, im;
};

// cos and sin of 2 pi k / points, for each k below points.
struct Circle {
    const float *cosine, *sine;
    int points;
};

// out = x turned by the angle whose cosine and sine are c and s, clockwise. `out` may be x.
template <typename Floats>
SHRUTI_INLINE void turn(const Complex<Floats> & x, float c, float s, Complex<Floats> & out) {
    const Floats re = x.re * c + x.im * s;
    out.im = x.im * c - x.re * s;
    out.re = re;
}

// The transforms of two, four and five numbers, in place.
template <typename Floats> SHRUTI_INLINE void transform_two(Complex<Floats> * a) {
    const Complex<Floats> x = a[0];
    a[0].re = x.re + a[1].re;
    a[0].im = x.im + a[1].im;
    a[1].re = x.re - a[1].re;
    a[1].im = x.im - a[1].im;
}

template <typename Floats> SHRUTI_INLINE void transform_four(Complex<Floats> * a) {
    const Floats s02r = a[0].re + a[2].re, s02i = a[0].im + a[2].im, d02r = a[0].re - a[2].re, d02i = a[0].im - a[2].im;
    const Floats s13r = a[1].re + a[3].re, s13i = a[1].im + a[3].im, d13r = a[1].re - a[3].re, d13i = a[1].im - a[3].im;
    a[0].re = s02r + s13r;
    a[0].im = s02i + s13i;
    a[1].re = d02r + d13i;
    a[1].im = d02i - d13r;
    a[2].re = s02r - s13r;
    a[2].im = s02i - s13i;
    a[3].re = d02r - d13i;
    a[3].im = d02i + d13r;
}

template <typename Floats> SHRUTI_INLINE void transform_five(Complex<Floats> * a) {
    const float  c1 = 0.309016994f, c2 = -0.809016994f, s1 = 0.951056516f, s2 = 0.587785252f;
    const Floats s14r = a[1].re + a[4].re, s14i = a[1].im + a[4].im, d14r = a[1].re - a[4].re, d14i = a[1].im - a[4].im;
    const Floats s23r = a[2].re + a[3].re, s23i = a[2].im + a[3].im, d23r = a[2].re - a[3].re, d23i = a[2].im - a[3].im;
    const Floats p1r = a[0].re + s14r * c1 + s23r * c2, p1i = a[0].im + s14i * c1 + s23i * c2;
    const Floats p2r = a[0].re + s14r * c2 + s23r * c1, p2i = a[0].im + s14i * c2 + s23i * c1;
    const Floats q1r = d14i * s1 + d23i * s2, q1i = d14r * s1 + d23r * s2;
    const Floats q2r = d14i * s2 - d23i * s1, q2i = d14r * s2 - d23r * s1;
    a[0].re += s14r + s23r;
    a[0].im += s14i + s23i;
    a[1].re = p1r + q1r;
    a[1].im = p1i - q1i;
    a[4].re = p1r - q1r;
    a[4].im = p1i + q1i;
    a[2].re = p2r + q2r;
    a[2].im = p2i - q2i;
    a[3].re = p2r - q2r;
    a[3].im = p2i + q2i;
}

// One step of Stockham's transform of length n in groups of `stride`. R: 2, 4 or 5. n divides the circle's points.
template <int R, typename Floats>
void fourier_step(const Circle & circle, int n, int stride, const Complex<Floats> * x, Complex<Floats> * y) {
    const int m = n / R, turn_of = circle.points / n;
    for (int p = 0; p < m; p++) {
        for (int q = 0; q < stride; q++) {
            Complex<Floats> a[R];
            for (int j = 0; j < R; j++) a[j] = x[q + stride * (p + m * j)];
            if constexpr (R == 2) transform_two(a);
            if constexpr (R == 4) transform_four(a);
            if constexpr (R == 5) transform_five(a);
            Complex<Floats> * out = y + q + stride * R * p;
            out[0] = a[0];
            for (int k = 1; k < R; k++) {
                const int angle = p * k * turn_of;
                turn(a[k], circle.cosine[angle], circle.sine[angle], out[stride * k]);
            }
        }
    }
}

// Squares of the absolute values of a spectrum of real samples, for frequencies 0 to points / 2.
//
// z: the transform of points / 2 complex numbers, whose real parts are the even samples and whose imaginary parts the
// odd ones. The frequencies k and points / 2 - k come from the same two numbers of it.
template <typename Floats>
void powers_of_real(const Circle & circle, const Complex<Floats> * z, Floats * power) {
    const int half = circle.points / 2;
    for (int k = 0; k <= half / 2; k++) {
        const Complex<Floats> & near = z[k];
        const Complex<Floats> & far = z[(half - k) % half];
        const Floats            even_re = near.re + far.re, even_im = near.im - far.im;
        Complex<Floats>         odd = {near.im + far.im, far.re - near.re};
        turn(odd, circle.cosine[k], circle.sine[k], odd);
        const Floats re = even_re + odd.re, im = even_im + odd.im;
        const Floats mirrored_re = even_re - odd.re, mirrored_im = even_im - odd.im;
        power[half - k] = (mirrored_re * mirrored_re + mirrored_im * mirrored_im) * 0.25f;
        power[k] = (re * re + im * im) * 0.25f;
    }
}

}  // namespace

#endif
