# Sources of pmix_glue/.
