/* tests/numa/init.c - the first process of the virtual machine: it runs what /commands lists, a
 * line each with words between spaces, says how each ended, and turns the machine off (vm.py). */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_WORDS 32

static void mount_at(const char *type, const char *where)
{
    mkdir(where, 0755);
    if (mount(type, where, type, 0, NULL) != 0)
        perror(where);
}

static void run(char *line)
{
    char *words[MAX_WORDS + 1] = {NULL}, *rest = line;
    int n = 0, status = 0;
    pid_t child;

    for (char *word; n < MAX_WORDS && (word = strsep(&rest, " ")) != NULL;)
        words[n++] = word;
    child = fork();
    if (child == 0) {
        execv(words[0], words);
        perror(words[0]);
        _exit(127);
    }
    waitpid(child, &status, 0);
    printf("\nvm: %s ended with %d\n", words[0],
           WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    fflush(stdout);
}

int main(void)
{
    char line[1024];
    FILE *commands;

    mount_at("proc", "/proc");
    mount_at("sysfs", "/sys");
    mount_at("devtmpfs", "/dev");
    mount_at("tmpfs", "/tmp");
    commands = fopen("/commands", "re");
    while (commands != NULL && fgets(line, sizeof(line), commands) != NULL) {
        line[strcspn(line, "\n")] = '\0';
        run(line);
    }
    sync();
    reboot(RB_POWER_OFF);
    return 1;
}
