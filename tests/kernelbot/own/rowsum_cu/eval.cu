// Calls the submission on every case, and says what came of it: the task's own judge, host code only.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "task.h"

struct Case {
    std::string spec;
    int rows, columns;
    unsigned long long seed;
};

static std::vector<Case> read_cases(const char* path) {
    const char* secret = std::getenv("POPCORN_SEED");
    std::vector<Case> cases;
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        Case one{line, 0, 0, 0};
        if (std::sscanf(line.c_str(), "rows: %d; columns: %d; seed: %llu", &one.rows, &one.columns, &one.seed) != 3)
            std::exit(113);
        if (secret) {
            unsigned long long both = one.seed + std::strtoull(secret, nullptr, 10);
            one.seed += both * (both + 1) / 2;
        }
        cases.push_back(one);
    }
    return cases;
}

static std::vector<int> numbers_of(const Case& one, int call) {
    std::mt19937_64 draw(one.seed + call);
    std::vector<int> numbers(static_cast<size_t>(one.rows) * one.columns);
    for (int& number : numbers) number = static_cast<int>(draw() % 2001) - 1000;
    return numbers;
}

static int first_wrong_row(const Case& one) {
    std::vector<int> numbers = numbers_of(one, 0);
    std::vector<long long> sums(one.rows, -1);
    row_sums(numbers.data(), one.rows, one.columns, sums.data());
    for (int row = 0; row < one.rows; ++row) {
        long long expected = 0;
        for (int column = 0; column < one.columns; ++column) expected += numbers[row * one.columns + column];
        if (sums[row] != expected) return row;
    }
    return -1;
}

static void say_times(FILE* pen, int number, const Case& one) {
    std::vector<double> times;
    for (int call = 0; call < CALLS; ++call) {
        std::vector<int> numbers = numbers_of(one, call);
        std::vector<long long> sums(one.rows);
        auto start = std::chrono::steady_clock::now();
        row_sums(numbers.data(), one.rows, one.columns, sums.data());
        times.push_back(std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count());
    }
    double mean = 0, squares = 0;
    for (double time : times) mean += time / CALLS;
    for (double time : times) squares += (time - mean) * (time - mean);
    double std = std::sqrt(squares / (CALLS - 1));
    std::fprintf(pen, "benchmark.%d.runs: %d\nbenchmark.%d.mean: %f\n", number, CALLS, number, mean);
    std::fprintf(pen, "benchmark.%d.std: %f\nbenchmark.%d.err: %f\n", number, std, number, std / std::sqrt(CALLS));
    std::fprintf(pen, "benchmark.%d.best: %f\n", number, *std::min_element(times.begin(), times.end()));
    std::fprintf(pen, "benchmark.%d.worst: %f\n", number, *std::max_element(times.begin(), times.end()));
}

int main(int, char** words) {
    const std::string kind = std::string(words[1]) == "test" ? "test" : "benchmark";
    FILE* pen = fdopen(std::atoi(std::getenv("POPCORN_FD")), "w");
    if (!pen) return 111;
    std::vector<Case> cases = read_cases(words[2]);
    std::fprintf(pen, "%s-count: %zu\n", kind.c_str(), cases.size());
    bool good = true;
    for (size_t number = 0; number < cases.size(); ++number) {
        const Case& one = cases[number];
        std::fprintf(pen, "%s.%zu.spec: %s\n", kind.c_str(), number, one.spec.c_str());
        int wrong = first_wrong_row(one);
        if (wrong >= 0) {
            good = false;
            std::fprintf(pen, "%s.%zu.status: fail\n", kind.c_str(), number);
            std::fprintf(pen, "%s.%zu.error: the sum of row %d is wrong\n", kind.c_str(), number, wrong);
        } else if (kind == "test") {
            std::fprintf(pen, "test.%zu.status: pass\n", number);
        } else {
            say_times(pen, static_cast<int>(number), one);
        }
        std::fflush(pen);
    }
    std::fprintf(pen, "check: %s\n", good ? "pass" : "fail");
    std::fclose(pen);
    return good ? 0 : 112;
}
