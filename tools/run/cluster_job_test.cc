#include "tools/run/cluster_job.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "absl/strings/str_split.h"

namespace phantora {
namespace {

using Environment = std::map<std::string, std::string>;

Environment EnvironmentOf(const RankCommand& rank) {
  Environment environment(rank.environment.begin(), rank.environment.end());
  EXPECT_EQ(environment.size(), rank.environment.size()) << "a variable is set twice";
  return environment;
}

class ClusterJobTest : public testing::Test {
 protected:
  ClusterJobTest() { unsetenv("OMP_NUM_THREADS"); }

  static Job Plan(const JobOptions& options, const std::vector<std::string>& command = {"a.out"}) {
    auto job = PlanJob(options, command);
    EXPECT_TRUE(job.ok()) << job.status();
    return job.ok() ? *std::move(job) : Job();
  }
  static std::string ErrorOf(const JobOptions& options) {
    const auto job = PlanJob(options, {"a.out"});
    return job.ok() ? "" : std::string(job.status().message());
  }
};

TEST_F(ClusterJobTest, TheCommandIsStartedOncePerGpu) {
  const Job job = Plan({.cluster = "dgx-h100:3"});
  ASSERT_EQ(job.ranks.size(), 24u);
  EXPECT_EQ(job.hosts, (std::vector<std::string>{"dgx-h100-0", "dgx-h100-1", "dgx-h100-2"}));
  EXPECT_EQ(job.addresses, (std::vector<std::string>{"127.77.0.1", "127.77.0.2", "127.77.0.3"}));
  for (int rank = 0; rank < 24; ++rank) {
    const RankCommand& command = job.ranks[static_cast<size_t>(rank)];
    EXPECT_EQ(command.label, "rank " + std::to_string(rank));
    EXPECT_EQ(command.host, rank / 8);
    EXPECT_EQ(command.reads_input, rank == 0);
    EXPECT_EQ(command.output, -1);
    const Environment environment = EnvironmentOf(command);
    EXPECT_EQ(environment.at("RANK"), std::to_string(rank));
    EXPECT_EQ(environment.at("LOCAL_RANK"), std::to_string(rank % 8));
    EXPECT_EQ(environment.at("HOSTNAME"), job.hosts[static_cast<size_t>(rank / 8)]);
  }
}

TEST_F(ClusterJobTest, VariablesOfTorch) {
  const Job job = Plan({.cluster = "dgx-h100:2"});
  Environment environment = EnvironmentOf(job.ranks[11]);
  const int port = std::atoi(environment["MASTER_PORT"].c_str());
  EXPECT_GT(port, 0);
  EXPECT_LT(port, 65536);
  EXPECT_EQ(EnvironmentOf(job.ranks[0]).at("MASTER_PORT"), environment["MASTER_PORT"]);
  environment.erase("MASTER_PORT");
  EXPECT_EQ(environment, (Environment{{"HOSTNAME", "dgx-h100-1"},
                                      {"MASTER_ADDR", "dgx-h100-0"},
                                      {"NODE_RANK", "1"},
                                      {"NNODES", "2"},
                                      {"RANK", "11"},
                                      {"WORLD_SIZE", "16"},
                                      {"LOCAL_RANK", "3"},
                                      {"LOCAL_WORLD_SIZE", "8"},
                                      {"GROUP_RANK", "1"},
                                      {"GROUP_WORLD_SIZE", "2"},
                                      {"ROLE_RANK", "11"},
                                      {"ROLE_WORLD_SIZE", "16"},
                                      {"ROLE_NAME", "default"},
                                      {"TORCHELASTIC_RUN_ID", "none"},
                                      {"TORCHELASTIC_RESTART_COUNT", "0"},
                                      {"TORCHELASTIC_MAX_RESTARTS", "0"},
                                      {"TORCHELASTIC_USE_AGENT_STORE", "False"},
                                      {"OMP_NUM_THREADS", "1"}}));
}

TEST_F(ClusterJobTest, VariablesOfSlurm) {
  const Job job = Plan({.cluster = "dgx-h100:2", .variables = "slurm"});
  EXPECT_EQ(EnvironmentOf(job.ranks[11]), (Environment{{"HOSTNAME", "dgx-h100-1"},
                                                       {"SLURM_JOB_ID", "1"},
                                                       {"SLURM_JOBID", "1"},
                                                       {"SLURM_NTASKS", "16"},
                                                       {"SLURM_NPROCS", "16"},
                                                       {"SLURM_STEP_NUM_TASKS", "16"},
                                                       {"SLURM_NNODES", "2"},
                                                       {"SLURM_JOB_NUM_NODES", "2"},
                                                       {"SLURM_STEP_NUM_NODES", "2"},
                                                       {"SLURM_JOB_NODELIST", "dgx-h100-[0-1]"},
                                                       {"SLURM_NODELIST", "dgx-h100-[0-1]"},
                                                       {"SLURM_STEP_NODELIST", "dgx-h100-[0-1]"},
                                                       {"SLURM_PROCID", "11"},
                                                       {"SLURM_LOCALID", "3"},
                                                       {"SLURM_NODEID", "1"},
                                                       {"SLURM_NTASKS_PER_NODE", "8"},
                                                       {"SLURM_TASKS_PER_NODE", "8(x2)"},
                                                       {"SLURMD_NODENAME", "dgx-h100-1"},
                                                       {"SLURM_GPUS_ON_NODE", "8"},
                                                       {"SLURM_GPUS_PER_NODE", "8"},
                                                       {"SLURM_SRUN_COMM_HOST", "127.77.0.1"},
                                                       {"SLURM_LAUNCH_NODE_IPADDR", "127.77.0.1"},
                                                       {"OMP_NUM_THREADS", "1"}}));
  const Environment alone =
      EnvironmentOf(Plan({.cluster = "dgx-h100:1", .variables = "slurm"}).ranks[7]);
  EXPECT_EQ(alone.at("SLURM_NODELIST"), "dgx-h100-0");
  EXPECT_EQ(alone.at("SLURM_TASKS_PER_NODE"), "8");
}

TEST_F(ClusterJobTest, VariablesOfOpenMpi) {
  const Job job = Plan({.cluster = "dgx-h100:2", .variables = "ompi"});
  EXPECT_EQ(EnvironmentOf(job.ranks[11]), (Environment{{"HOSTNAME", "dgx-h100-1"},
                                                       {"OMPI_COMM_WORLD_RANK", "11"},
                                                       {"OMPI_COMM_WORLD_SIZE", "16"},
                                                       {"OMPI_COMM_WORLD_LOCAL_RANK", "3"},
                                                       {"OMPI_COMM_WORLD_LOCAL_SIZE", "8"},
                                                       {"OMPI_COMM_WORLD_NODE_RANK", "3"},
                                                       {"OMPI_UNIVERSE_SIZE", "16"},
                                                       {"OMP_NUM_THREADS", "1"}}));
}

TEST_F(ClusterJobTest, SeveralKindsOfVariablesAndNone) {
  const Environment both =
      EnvironmentOf(Plan({.cluster = "dgx-h100:2", .variables = " ompi,, torch,torch"}).ranks[5]);
  EXPECT_EQ(both.at("OMPI_COMM_WORLD_RANK"), "5");
  EXPECT_EQ(both.at("RANK"), "5");
  EXPECT_FALSE(both.contains("SLURM_PROCID"));
  for (const char* none : {"none", ""}) {
    EXPECT_EQ(EnvironmentOf(Plan({.cluster = "dgx-h100:2", .variables = none}).ranks[5]),
              (Environment{{"HOSTNAME", "dgx-h100-0"}, {"OMP_NUM_THREADS", "1"}}));
  }
}

TEST_F(ClusterJobTest, ThreadsThatTheUserHasSetStay) {
  setenv("OMP_NUM_THREADS", "4", 1);
  EXPECT_FALSE(EnvironmentOf(Plan({.cluster = "dgx-h100:1"}).ranks[0]).contains("OMP_NUM_THREADS"));
  unsetenv("OMP_NUM_THREADS");
  // A rank alone on its host has all of it.
  EXPECT_FALSE(EnvironmentOf(Plan({.cluster = "dgx-h100:1", .ranks_per_host = 1}).ranks[0])
                   .contains("OMP_NUM_THREADS"));
}

TEST_F(ClusterJobTest, FewerRanksThanGpus) {
  const Job job = Plan({.cluster = "dgx-h100:2", .ranks_per_host = 3});
  ASSERT_EQ(job.ranks.size(), 6u);
  const Environment environment = EnvironmentOf(job.ranks[4]);
  EXPECT_EQ(job.ranks[4].host, 1);
  EXPECT_EQ(environment.at("RANK"), "4");
  EXPECT_EQ(environment.at("LOCAL_RANK"), "1");
  EXPECT_EQ(environment.at("LOCAL_WORLD_SIZE"), "3");
  EXPECT_EQ(environment.at("WORLD_SIZE"), "6");
  EXPECT_EQ(Plan({.cluster = "dgx-h100:2", .ranks_per_host = 8}).ranks.size(), 16u);
}

TEST_F(ClusterJobTest, LaunchersAreRecognised) {
  EXPECT_TRUE(IsLauncher({"torchrun", "train.py"}));
  EXPECT_TRUE(IsLauncher({"/opt/venv/bin/torchrun"}));
  EXPECT_TRUE(IsLauncher({"python3", "-m", "torch.distributed.run", "train.py"}));
  EXPECT_TRUE(IsLauncher({"python3", "-u", "-m", "torch.distributed.launch", "train.py"}));
  EXPECT_FALSE(IsLauncher({}));
  EXPECT_FALSE(IsLauncher({"python3", "torchrun"}));
  EXPECT_FALSE(IsLauncher({"python3", "-m"}));
  EXPECT_FALSE(IsLauncher({"python3", "-m", "train", "-m", "torch.distributed.run"}));
  EXPECT_FALSE(IsLauncher({"/opt/torchrun/python3", "train.py"}));
  EXPECT_FALSE(IsLauncher({"mytorchrun"}));
}

TEST_F(ClusterJobTest, LaunchersAreStartedOncePerHost) {
  const JobOptions options = {.cluster = "dgx-h100:2", .variables = "torch,slurm,ompi"};
  const Job job = Plan(options, {"torchrun", "train.py"});
  ASSERT_EQ(job.ranks.size(), 2u);
  EXPECT_EQ(job.ranks[1].label, "host 1");
  EXPECT_EQ(job.ranks[1].host, 1);
  EXPECT_FALSE(job.ranks[1].reads_input);
  const Environment environment = EnvironmentOf(job.ranks[1]);
  EXPECT_EQ(environment.at("NODE_RANK"), "1");
  EXPECT_EQ(environment.at("NNODES"), "2");
  EXPECT_EQ(environment.at("MASTER_ADDR"), "dgx-h100-0");
  EXPECT_EQ(environment.at("SLURM_NTASKS"), "2");
  EXPECT_EQ(environment.at("SLURM_PROCID"), "1");
  // What it sets itself.
  for (const char* name :
       {"RANK", "LOCAL_RANK", "WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMP_NUM_THREADS"}) {
    EXPECT_FALSE(environment.contains(name)) << name;
  }
}

TEST_F(ClusterJobTest, TheUserMaySayHowOften) {
  const std::vector<std::string> launcher = {"torchrun", "train.py"};
  EXPECT_EQ(Plan({.cluster = "dgx-h100:2", .started = Started::kPerRank}, launcher).ranks.size(),
            16u);
  EXPECT_EQ(Plan({.cluster = "dgx-h100:2", .started = Started::kPerHost}).ranks.size(), 2u);
  const Job once = Plan({.cluster = "dgx-h100:2", .started = Started::kOnce});
  ASSERT_EQ(once.ranks.size(), 1u);
  EXPECT_EQ(once.ranks[0].label, "host 0");
  EXPECT_TRUE(once.ranks[0].reads_input);
  EXPECT_EQ(EnvironmentOf(once.ranks[0]).at("NNODES"), "2");
  EXPECT_EQ(once.hosts.size(), 2u);
}

TEST_F(ClusterJobTest, ErrorsSayWhatIsWrong) {
  EXPECT_NE(ErrorOf({.cluster = "dgx-z100"}).find("there is no cluster named dgx-z100"),
            std::string::npos);
  EXPECT_NE(ErrorOf({.cluster = "/nowhere.yaml"}).find("cannot read /nowhere.yaml"),
            std::string::npos);
  EXPECT_NE(ErrorOf({.cluster = "dgx-h100:0"}), "");
  EXPECT_NE(ErrorOf({.cluster = "dgx-h100:many"}), "");
  EXPECT_EQ(ErrorOf({.cluster = "dgx-h100", .ranks_per_host = 9}),
            "--ranks-per-host 9: a host of dgx-h100 has 8 GPUs");
  EXPECT_EQ(ErrorOf({.cluster = "dgx-h100", .variables = "torch,pbs"}),
            "--rank-env has no kind 'pbs'; there are torch, slurm, ompi, none");
}

TEST_F(ClusterJobTest, ModulesToImportBeforeRanksBegin) {
  const JobOptions options = {.cluster = "dgx-h100:2", .preload = "torch,transformers.utils"};
  const Job job = Plan(options, {"python3", "-u", "train.py", "--lr", "1"});
  ASSERT_TRUE(job.preload.has_value());
  EXPECT_EQ(job.preload->modules, "torch,transformers.utils");
  EXPECT_EQ(job.preload->command.program, "train.py");
  EXPECT_FALSE(Plan({.cluster = "dgx-h100"}).preload.has_value());
  const auto error = [](JobOptions options, const std::vector<std::string>& command) {
    return std::string(PlanJob(options, command).status().message());
  };
  EXPECT_NE(error(options, {"torchrun", "train.py"}).find("torchrun and --start per-host"),
            std::string::npos);
  EXPECT_EQ(error(options, {"./train.sh"}),
            "--preload: the command is to begin with a Python interpreter, and not with "
            "./train.sh");
  for (const char* modules : {"torch,", "torch import os", "a;b", ","}) {
    EXPECT_NE(error({.cluster = "dgx-h100", .preload = modules}, {"python3", "train.py"})
                  .find("is no name of a Python module"),
              std::string::npos)
        << modules;
  }
}

TEST_F(ClusterJobTest, NamesAndAddressesOfManyHosts) {
  const Job job = Plan({.cluster = "dgx-h100:600", .started = Started::kPerHost});
  EXPECT_EQ(job.addresses[249], "127.77.0.250");
  EXPECT_EQ(job.addresses[250], "127.77.1.1");
  EXPECT_EQ(std::set(job.addresses.begin(), job.addresses.end()).size(), 600u);
  EXPECT_EQ(job.hosts[599], "dgx-h100-599");
}

TEST_F(ClusterJobTest, HostsOfAFileAreNamedAfterIt) {
  const std::string path = testing::TempDir() + "/My_Cluster.v2.yaml";
  std::ofstream(path) << R"(about: two hosts
hosts: 2
host: {gpu: a100-sxm4-80gb, gpus: 2, nvlink: false, cpu: amd, cores: 32, memory_gib: 256, nics: 1}
nic: {transport: ethernet, gbit_per_s: 25, messages_per_us: 10}
network: {shape: leaf-spine, hosts_per_leaf: 16, spines: 1, uplinks: 1, core_gbit_per_s: 100,
          edge_latency_ns: 2000, core_latency_ns: 2000, mtu: 1500, multipath: ecmp}
)";
  for (const char* number : {"", ":2"}) {
    const auto job = PlanJob({.cluster = path + number}, {"a.out"});
    ASSERT_TRUE(job.ok()) << job.status();
    EXPECT_EQ(job->hosts, (std::vector<std::string>{"my-cluster-v2-0", "my-cluster-v2-1"}));
  }
}

TEST_F(ClusterJobTest, EveryClusterIsDescribedAndCanBePlanned) {
  const std::string text = DescribeClusters();
  std::vector<std::string> lines = absl::StrSplit(text, '\n', absl::SkipEmpty());
  EXPECT_EQ(lines.size(), ClusterNames().size());
  for (const std::string& name : ClusterNames()) {
    const Job job = Plan({.cluster = name});
    EXPECT_EQ(job.ranks.size(), static_cast<size_t>(job.cluster.gpus()));
    EXPECT_NE(text.find(name), std::string::npos);
  }
}

}  // namespace
}  // namespace phantora
