#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>

#include "app/shared_state.hpp"

namespace tidegate::app::cpu_and_file_limits_test {

namespace {

namespace fs = std::filesystem;

// The files that the kernel shows, as a folder.
struct Machine {
    Machine() {
        std::string name = (fs::temp_directory_path() / "cpu-quota-XXXXXX").string();
        REQUIRE(::mkdtemp(name.data()) != nullptr);
        root = name;
    }
    ~Machine() { fs::remove_all(root); }
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    void with(const std::string& path, const std::string& text) const {
        fs::create_directories(fs::path(root + path).parent_path());
        std::ofstream(root + path) << text;
    }
    void in_group(const std::string& lines) const { with("/proc/self/cgroup", lines); }
    void mounted(const std::string& lines) const { with("/proc/self/mountinfo", lines); }
    double quota() const { return cpu_quota(root).value_or(0); }

    std::string root;
};

constexpr const char* kV2 =
    "22 1 0:20 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
    "30 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
constexpr const char* kV1 =
    "31 22 0:27 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "32 22 0:28 / /sys/fs/cgroup/cpu,cpuacct rw shared:9 - cgroup cgroup rw,cpu,cpuacct\n"
    "33 22 0:29 / /sys/fs/cgroup/cpuset rw shared:9 - cgroup cgroup rw,cpuset\n";

TEST_CASE("cpu_quota: without groups, mounts or a quota there is none") {
    const Machine machine;
    CHECK(!cpu_quota(machine.root));
    machine.mounted(kV2);
    CHECK(!cpu_quota(machine.root));
    machine.in_group("0::/system.slice/tidegate.service\n");
    CHECK(!cpu_quota(machine.root));
    machine.with("/sys/fs/cgroup/system.slice/tidegate.service/cpu.max", "max 100000\n");
    CHECK(!cpu_quota(machine.root));
    machine.with("/sys/fs/cgroup/system.slice/tidegate.service/cpu.max", "0 0\n");
    CHECK(!cpu_quota(machine.root));
}

TEST_CASE("cpu_quota: a container sees its own group at the top") {
    const Machine machine;
    machine.mounted(kV2);
    machine.in_group("0::/\n");
    machine.with("/sys/fs/cgroup/cpu.max", "150000 100000\n");
    CHECK(machine.quota() == 1.5);
}

TEST_CASE("cpu_quota: CPUQuota= of a unit is that of a nested group") {
    const Machine machine;
    machine.mounted(kV2);
    machine.in_group("0::/system.slice/tidegate.service\n");
    machine.with("/sys/fs/cgroup/system.slice/tidegate.service/cpu.max", "200000 100000\n");
    CHECK(machine.quota() == 2);
}

TEST_CASE("cpu_quota: the smallest quota of all groups around the process counts") {
    const Machine machine;
    machine.mounted(kV2);
    machine.in_group("0::/a.slice/b.slice/c.service\n");
    machine.with("/sys/fs/cgroup/a.slice/b.slice/c.service/cpu.max", "800000 100000\n");
    machine.with("/sys/fs/cgroup/a.slice/b.slice/cpu.max", "max 100000\n");
    machine.with("/sys/fs/cgroup/a.slice/cpu.max", "50000 50000\n");
    CHECK(machine.quota() == 1);
    machine.with("/sys/fs/cgroup/a.slice/other.slice/cpu.max", "1000 100000\n");
    CHECK(machine.quota() == 1);
    machine.with("/sys/fs/cgroup/a.slice/b.slice/cpu.max", "25000 100000\n");
    CHECK(machine.quota() == 0.25);
}

TEST_CASE("cpu_quota: cgroup v1 has it in the hierarchy of `cpu`, in two files") {
    const Machine machine;
    machine.mounted(kV1);
    machine.in_group("5:memory:/user\n4:cpu,cpuacct:/system.slice/t.service\n3:cpuset:/\n");
    const std::string group = "/sys/fs/cgroup/cpu,cpuacct/system.slice/t.service/";
    machine.with(group + "cpu.cfs_period_us", "100000\n");
    machine.with(group + "cpu.cfs_quota_us", "-1\n");
    CHECK(!cpu_quota(machine.root));
    machine.with(group + "cpu.cfs_quota_us", "300000\n");
    CHECK(machine.quota() == 3);
    machine.with("/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_quota_us", "100000\n");
    machine.with("/sys/fs/cgroup/cpu,cpuacct/system.slice/cpu.cfs_period_us", "50000\n");
    CHECK(machine.quota() == 2);
}

TEST_CASE("cpu_quota: v1 and v2 may be mounted together") {
    const Machine machine;
    machine.mounted(std::string(kV1) +
                    "40 22 0:40 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n");
    machine.in_group("4:cpu,cpuacct:/t\n0::/t\n");
    machine.with("/sys/fs/cgroup/cpu,cpuacct/t/cpu.cfs_period_us", "100000\n");
    machine.with("/sys/fs/cgroup/cpu,cpuacct/t/cpu.cfs_quota_us", "200000\n");
    CHECK(machine.quota() == 2);
}

TEST_CASE("cpu_quota: a mount that shows one group of the machine, as in a container of v1") {
    const Machine machine;
    machine.mounted("32 22 0:28 /docker/4f /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n");
    machine.with("/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
    machine.with("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n");
    machine.in_group("4:cpu:/docker/4f\n");
    CHECK(machine.quota() == 4);
    machine.in_group("4:cpu:/docker/4f/inner\n");
    machine.with("/sys/fs/cgroup/cpu/inner/cpu.cfs_period_us", "100000\n");
    machine.with("/sys/fs/cgroup/cpu/inner/cpu.cfs_quota_us", "100000\n");
    CHECK(machine.quota() == 1);
    // Paths that the mount does not show: its own group is what there is.
    for (const char* path : {"/docker/4fff", "/", "/../../x", "/elsewhere"}) {
        CAPTURE(path);
        machine.in_group(std::string("4:cpu:") + path + "\n");
        CHECK(machine.quota() == 4);
    }
}

TEST_CASE("cpu_quota: a space in the place of a mount is read") {
    const Machine machine;
    machine.mounted("30 22 0:26 / /my\\040groups\\134x rw - cgroup2 cgroup2 rw\n");
    machine.in_group("0::/a:b\n");
    machine.with("/my groups\\x/a:b/cpu.max", "100000 100000\n");
    CHECK(machine.quota() == 1);
}

TEST_CASE("cpu_quota: lines that are none are passed over") {
    const Machine machine;
    machine.mounted(std::string("\n1 2\nx - cgroup2\n") + kV2);
    machine.in_group("\nnonsense\n0:\n0::/t\n");
    machine.with("/sys/fs/cgroup/t/cpu.max", "100000 100000\n");
    CHECK(machine.quota() == 1);
}

TEST_CASE("descriptors: clients leave enough for upstreams and the admin listener, and get half") {
    config::Config config;
    CHECK(descriptors_for_clients(1'024, 1, config) == 1'024 - 272);
    config.upstreams.resize(2);
    config.upstreams[0].max_connections = 100;
    config.upstreams[1].max_connections = 200;
    CHECK(descriptors_for_clients(4'096, 2, config) == 4'096 - 716);
    CHECK(descriptors_for_clients(100, 2, config) == 50);
    CHECK(descriptors_for_clients(0, 2, config) == 0);
}

}  // namespace

}  // namespace tidegate::app::cpu_and_file_limits_test
