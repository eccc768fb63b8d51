/* config/config_file.h - the settings file: name = value, and sections [NAME] of models.
 *
 * inih takes the lines apart. The heads of sections are read here: inih cuts their names at 49
 * bytes, and says nothing of a section that is empty.
 *
 * Thread: one.
 * Memory: what it reads goes into the struct config of the setting.
 * Errors: ERR_INVAL or ERR_NOMEM, with a sentence that begins with file:line.
 */
#ifndef CONFIG_CONFIG_FILE_H
#define CONFIG_CONFIG_FILE_H

struct config;
struct setting;

/* Read all of it; `s` says into what, and where sentences go. Whether sections are those of models
 * is told later, by config_file_check_sections(): flags may list other models. */
int config_file_load(const struct setting *s, const char *path);

/* Does each section belong to a model that is served, or that the file lists itself? */
int config_file_check_sections(const struct setting *s);

#endif
