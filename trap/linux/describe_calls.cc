// Prints docs/system_calls.md.
#include <cstdio>

#include "trap/linux/call_table.h"

int main() { std::fputs(phantora::DescribeCallTable().c_str(), stdout); }
