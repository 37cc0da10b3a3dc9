import { describe, expect, test } from "bun:test";
import { existsSync, readFileSync } from "node:fs";
import { allProcessorCode, machineProcessorCode, missingProcessorCode } from "./processor-code.ts";

const cpuinfo = (vendor: string, flags: string) =>
  `processor\t: 0\nvendor_id\t: ${vendor}\nflags\t\t: ${flags}\n`;
const AVX2 = "fpu sse2 sse4_2 avx f16c fma avx2 bmi2";
const AVX512 = `${AVX2} avx512f avx512cd avx512vl avx512dq avx512bw`;
const VNNI = `${AVX512} avx512vbmi avx512_vnni`;
const AMX = `${VNNI} avx512_bf16 amx_tile amx_int8`;
const INTEL = "GenuineIntel";
const AMD = "AuthenticAMD";

describe("a build for one machine", () => {
  test.each([
    ["a processor of 2008", INTEL, "fpu sse2 sse4_2", ["sse42", "x64"]],
    ["AVX", INTEL, "sse4_2 avx", ["sandybridge", "x64"]],
    ["AVX2", AMD, AVX2, ["haswell", "x64"]],
    ["AVX2 without BMI2", AMD, AVX2.replace(" bmi2", ""), ["piledriver", "x64"]],
    ["AVX2 with VNNI", INTEL, `${AVX2} avx_vnni`, ["alderlake", "haswell", "x64"]],
    ["AVX-512", INTEL, AVX512, ["skylakex", "haswell", "x64"]],
    ["AVX-512 in part", INTEL, AVX512.replace(" avx512vl", ""), ["haswell", "x64"]],
    ["AVX-512 with VNNI", INTEL, VNNI, ["icelake", "haswell", "x64"]],
    ["bf16 of AMD", AMD, `${VNNI} avx512_bf16`, ["zen4", "haswell", "x64"]],
    ["bf16 of Intel, whose products are slow", INTEL, `${VNNI} avx512_bf16`, ["icelake", "haswell", "x64"]],
    ["AMX", INTEL, AMX, ["sapphirerapids", "haswell", "x64"]],
    ["AMX that the kernel does not know", INTEL, AMX.replace(/ amx_\w+/g, ""), ["icelake", "haswell", "x64"]],
    ["nothing known", INTEL, "fpu", ["x64"]],
  ])("has the best code, that for AVX2, and the plainest: %s", (_what, vendor, flags, expected) => {
    expect(machineProcessorCode("x64", cpuinfo(vendor, flags))).toEqual(expected);
  });

  test.each([
    ["asimd", ["armv8.0_1"]],
    ["asimd fphp asimddp", ["armv8.2_2", "armv8.0_1"]],
    ["asimd fphp asimddp sve i8mm sve2 sme", ["armv9.2_2", "armv8.0_1"]],
  ])("for ARM with %s has %j", (features, expected) => {
    expect(machineProcessorCode("arm64", `processor\t: 0\nFeatures\t: fp ${features}\n`)).toEqual(expected);
  });

  test("has all code where the system does not say what the processor has", () => {
    expect(machineProcessorCode("x64", "processor\t: 0\n")).toEqual(allProcessorCode("x64"));
  });
});

test("ggml's list has the code that a release has had, and no instructions that are unknown here", () => {
  expect(allProcessorCode("x64")).toHaveLength(14);
  expect(allProcessorCode("arm64")).toHaveLength(8);
  // A set that is unknown here would never be chosen.
  const everything = `${AMX} avx_vnni`;
  expect(machineProcessorCode("x64", cpuinfo(INTEL, everything))[0]).toBe("sapphirerapids");
  expect(() => allProcessorCode("mips")).toThrow("no code for processors of the kind mips");
});

test("what a set of libraries lacks is named", () => {
  const all = allProcessorCode("x64");
  expect(missingProcessorCode("x64", all)).toEqual([]);
  expect(
    missingProcessorCode(
      "x64",
      all.filter((name) => name !== "zen4"),
    ),
  ).toEqual(["zen4"]);
});

test.skipIf(!existsSync("/proc/cpuinfo"))(
  "the processor's code of this machine is among all (needs Linux)",
  () => {
    const chosen = machineProcessorCode(process.arch, readFileSync("/proc/cpuinfo", "utf8"));
    expect(missingProcessorCode(process.arch, chosen).length).toBe(
      allProcessorCode(process.arch).length - chosen.length,
    );
  },
);
